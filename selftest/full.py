"""A full batch: all rows taken at once, and one step of as many tokens as one may have.

Drives an engine that has not been started. Knows nothing of what it answers, nor of memory.
"""

from collections.abc import Sequence as Several
from dataclasses import dataclass

from inference.engine.engine import Engine
from inference.engine.sequence import Task
from inference.engine.stats import Step
from selftest.asked import GREEDY
from selftest.ways import asked, forgetful

NEW = 3  # tokens of an answer: the first comes with its prompt


@dataclass
class Full:
    """What came of it, at most: answers at a time, tokens in a step. error: why there was none."""

    answers: int = 0
    tokens: int = 0
    error: str = ""


def fill(engine: Engine, ids: Several[int], most: int) -> Full:
    """Ask for an answer to each row's own prompt, made of `ids`. Of `most` tokens in all, at least one each.

    The engine's watch is another's again afterwards.
    """
    tasks = prompts(engine, ids, most)
    full, other = Full(), engine.loop.watch

    def watch(step: Step) -> None:
        full.answers = max(full.answers, len(engine.loop.scheduler.running))
        full.tokens = max(full.tokens, step.tokens)
        other(step)

    engine.watch_with(watch)
    try:
        with forgetful(engine):
            answers = asked(engine, tasks)
            engine.finish()
    finally:
        engine.watch_with(other)
    full.error = next((answer.error.message for answer in answers if answer.error), "")
    return full


def prompts(engine: Engine, ids: Several[int], most: int) -> list[Task]:
    """For each row one that begins elsewhere in the ids, as long as all have room for together."""
    rows = engine.loop.seating
    room = min(rows.context, rows.area // rows.max_rows) - NEW - 1
    length = max(1, min(-(-most // rows.max_rows), room))
    return [
        Task(tuple(ids[(row + place) % len(ids)] for place in range(length)), NEW, GREEDY)
        for row in range(rows.max_rows)
    ]
