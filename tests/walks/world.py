"""An engine that is driven turn by turn, with a clock of its own and memory of all that was asked of it.

Whatever is done, its accounts are checked after every turn, and at the end every answer.
"""

from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Protocol

import pytest
import torch

from inference.engine import gate, loop, scheduler
from inference.engine.engine import Engine
from inference.engine.errand import Errand, Errands
from inference.engine.sampler import Choice
from inference.engine.sequence import Record, Score, Task
from inference.errors import Overloaded, TooLong
from inference.model.batch import Batch
from tests.walks.accounts import check_accounts

CALM = 10  # steps after a shortage; a walk is too short for many
COUNTED = ("steps", "preemptions", "accepted_tokens", "drafted_tokens", "cached_tokens", "shortages")


class Right(Protocol):
    """What answers are when nothing else is computed.

    near  how far a logprob may be off
    """

    near: float

    def choices(self, task: Task) -> list[Choice]:
        """The tokens of an answer; the last one's id is below 0 where it must fail."""
        ...

    def scores(self, task: Task) -> list[Score]: ...


class Clock:
    """In the place of the module `time`: it stands still until it is set."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    perf_counter = monotonic


@dataclass(eq=False)
class Asked:
    """A task, what was heard of it, and whether it met with a fault of the machine."""

    id: int
    task: Task
    records: list[Record] = field(default_factory=list)
    blamed: bool = False
    cancelled: bool = False

    @property
    def ids(self) -> list[int]:
        return [id for record in self.records for id in record.ids]

    @property
    def logprobs(self) -> list[float]:
        return [logprob for record in self.records for logprob in record.logprobs]

    @property
    def reason(self) -> str:
        """Why it ended; empty while it goes on."""
        last = self.records[-1] if self.records else Record()
        return "error" if last.error else last.reason

    def put(self, record: Record) -> None:
        self.records.append(record)


class World:
    """`seen` counts what has happened, so that a test can tell whether its walks led anywhere."""

    def __init__(self, engine: Engine, right: Right, seen: Counter[str]) -> None:
        self.engine, self.right, self.seen = engine, right, seen
        self.clock = Clock()
        self.patch = pytest.MonkeyPatch()
        for module in (loop, gate):
            self.patch.setattr(module, "time", self.clock)
        self.patch.setattr(scheduler, "CALM", CALM)
        engine.loop.errands = Errands(self.clock.monotonic)
        self.asked: dict[int, Asked] = {}
        self.begun: set[int] = set()
        self.errands: list[Errand[int]] = []
        self.over: list[object] = []
        self.faults: list[tuple[Exception, bool]] = []  # and whether it comes behind the moves

    def submit(self, *tasks: Task) -> list[Asked]:
        """What became of the tasks: nothing where they are too long or too many."""
        waiting = self.engine.stats().waiting_tokens
        heard = [Asked(-1, task) for task in tasks]
        try:
            ids = self.engine.submit(tasks, heard)
        except (TooLong, Overloaded) as refused:
            assert self.engine.stats().waiting_tokens == waiting
            self.seen[type(refused).__name__] += 1
            return []
        for id, one in zip(ids, heard, strict=True):
            one.id = id
            self.asked[id] = one
        return heard

    def cancel(self, one: Asked) -> None:
        one.cancelled = True
        self.engine.cancel([one.id])

    def preempt(self, number: int) -> None:
        running = self.engine.loop.scheduler.running
        if running:
            self.engine.loop.scheduler.preempt(running[number % len(running)])

    def errand(self, steps: int, fails: bool) -> None:
        def work() -> Generator[None, None, int]:
            for _ in range(steps):
                self.clock.now += 0.5
                yield
            if fails:
                raise ValueError("by chance")
            return steps

        self.errands.append(Errand(work(), self.over.append))
        self.engine.run(self.errands[-1])

    def fail(self, batch: Batch, moved: bool) -> None:
        """The runner's fault: raises the next of `faults` at its place, and blames a sequence that stands
        alone in the batch."""
        if self.faults and self.faults[-1][1] == moved:
            if len(batch.rows) == 1:
                (alone,) = (s.id for s in self.engine.loop.rows.live if s.row == batch.rows[0])
                self.asked[alone].blamed = True
            raise self.faults.pop()[0]

    @torch.inference_mode()
    def turn(self, count: int = 1) -> bool:
        """Take so many turns; returns whether anything is left to do."""
        busy = True
        for _ in range(count):
            self.clock.now += 1
            busy = self._step()
            self.begun |= {sequence.id for sequence in self.engine.loop.scheduler.seated}
            self.check()
        return busy

    def _step(self) -> bool:
        before = self.engine.stats()
        busy = self.engine.step()
        after = self.engine.stats()
        if after.shortages == before.shortages:
            self.seen["squeezed"] += after.preemptions - before.preemptions
        return busy

    def check(self) -> None:
        check_accounts(self.engine, self.asked, self.begun)

    def finish(self, stops: bool = False) -> None:
        """Let all come to its end, or stop the engine, and see that each answer is right so far."""
        try:
            left = 3_000
            while not stops and self.turn():
                left -= 1
                assert left, "still busy"
            if stops:
                self.engine.stop()
            self.judge(stops)
        finally:
            self.patch.undo()

    def judge(self, stopped: bool) -> None:
        stats = self.engine.stats()
        for one in self.asked.values():
            self.seen[one.reason] += 1
            judge(one, self.right, stopped)
        assert stopped or not stats.running + stats.waiting + stats.waiting_tokens + stats.held
        assert all(errand.future.done() for errand in self.errands) and len(self.over) == len(self.errands)
        for name in COUNTED:
            self.seen[name] += getattr(stats, name)


def judge(one: Asked, right: Right, stopped: bool) -> None:
    """It has ended, for the right reason, and what it was told is the beginning of what is right."""
    choices = right.choices(one.task)
    broken = bool(choices) and choices[-1].id < 0
    told = choices[: len(one.ids)]
    assert one.ids == [choice.id for choice in told]
    assert one.logprobs == pytest.approx([c.logprob for c in told if c.logprob is not None], abs=right.near)
    match one.reason:
        case "error":
            error = str(one.records[-1].error)
            innocent = not broken and (not one.blamed or "not a number" in error)
            assert stopped or not innocent, f"{error}: {one.task}"
        case "stop":
            assert len(told) == len(choices) and not broken and told[-1].id in one.task.ends
        case "length":
            assert len(told) == len(choices) and not broken and not (told and told[-1].id in one.task.ends)
        case "deadline":
            assert one.task.deadline is not None
        case _:
            assert one.reason == "cancelled" and one.cancelled
    first = one.records[0]
    if first.error is None and first.reason not in ("cancelled", "deadline"):
        scores = right.scores(one.task)
        expected = [score.logprob for score in scores[1:]]
        assert len(first.prompt) == len(scores)
        assert [score.logprob for score in first.prompt[1:]] == pytest.approx(expected, abs=right.near)
        assert right.near > 1e-4 or [s.rank for s in first.prompt] == [s.rank for s in scores]
