"""An engine that says what a test has it say. Knows tasks, outlets and records as the real one does."""

from collections.abc import Iterable, Sequence

from inference.engine.sequence import Outlet, Record, Task
from inference.errors import ServerError, Unavailable


class FakeEngine:
    def __init__(self) -> None:
        self.reason = ""
        self.failing = 0
        self.tasks: list[Task] = []
        self.outlets: list[Outlet] = []
        self.cancelled: list[int] = []
        self.refuses: ServerError | None = None

    def submit(self, tasks: Sequence[Task], outlets: Sequence[Outlet]) -> list[int]:
        if self.refuses:
            raise self.refuses
        first = len(self.tasks)
        self.tasks += tasks
        self.outlets += outlets
        return list(range(first, len(self.tasks)))

    def cancel(self, ids: Iterable[int]) -> None:
        self.cancelled += ids

    def stop(self) -> None:
        self.reason = "stopped"
        for outlet in self.outlets:
            outlet.put(Record(error=Unavailable("stopped")))

    def say(self, ids: Iterable[int], reason: str = "stop", end: int | None = None, task: int = 0) -> None:
        """A record for each id, the end token in one of its own."""
        records = [Record(ids=(id,)) for id in ids]
        records.append(Record(ids=() if end is None else (end,), reason=reason))
        for place, record in enumerate(records):
            self.put(Record(record.ids, cached=None if place else 0, reason=record.reason), task)

    def put(self, record: Record, task: int = 0) -> None:
        self.outlets[task].put(record)
