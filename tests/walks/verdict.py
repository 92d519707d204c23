"""What was asked and heard, and whether that was right."""

from dataclasses import dataclass, field
from typing import Protocol

import pytest

from inference.engine.sampler import Choice
from inference.engine.sequence import Record, Score, Task


class Right(Protocol):
    """What answers are when nothing else is computed.

    near  how far a logprob may be off
    """

    near: float

    def choices(self, task: Task) -> list[Choice]:
        """The tokens of an answer; the last one's id is below 0 where it must fail."""
        ...

    def scores(self, task: Task) -> list[Score]: ...


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
