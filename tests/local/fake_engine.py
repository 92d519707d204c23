"""An engine with scripted outputs. It accepts tasks and output sinks as the real one does."""

from collections.abc import Iterable, Sequence

from inference.engine.sequence import OutputSink, StepOutput, Task
from inference.errors import ServerError, Unavailable


class FakeEngine:
    def __init__(self) -> None:
        self.closed_reason = ""
        self.consecutive_failures = 0
        self.tasks: list[Task] = []
        self.output_sinks: list[OutputSink] = []
        self.cancelled: list[int] = []
        self.refuses: ServerError | None = None

    def submit(self, tasks: Sequence[Task], output_sinks: Sequence[OutputSink]) -> list[int]:
        if self.refuses:
            raise self.refuses
        first = len(self.tasks)
        self.tasks += tasks
        self.output_sinks += output_sinks
        return list(range(first, len(self.tasks)))

    def abort(self, ids: Iterable[int]) -> None:
        self.cancelled += ids

    def stop(self) -> None:
        self.closed_reason = "stopped"
        for output_sink in self.output_sinks:
            output_sink.put(StepOutput(error=Unavailable("stopped")))

    def say(self, ids: Iterable[int], reason: str = "stop", end: int | None = None, task: int = 0) -> None:
        """Puts one output for each id, and a last one with the finish reason and the end token, if any."""
        outputs = [StepOutput(token_ids=(id,)) for id in ids]
        outputs.append(StepOutput(token_ids=() if end is None else (end,), finish_reason=reason))
        for place, output in enumerate(outputs):
            self.put(
                StepOutput(
                    output.token_ids,
                    num_cached_tokens=None if place else 0,
                    finish_reason=output.finish_reason,
                ),
                task,
            )

    def put(self, output: StepOutput, task: int = 0) -> None:
        self.output_sinks[task].put(output)
