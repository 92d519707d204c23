"""How fast an engine is, measured on the tasks themselves.

Knows an engine that has not been started; nothing of what it answers.
"""

import time
from collections.abc import Sequence as Several
from dataclasses import dataclass, replace

from inference.engine.engine import Engine
from inference.engine.sequence import Task
from selftest.ways import asked, forgetful

COMPANY = 8  # answers at once


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens a second: of a prompt, of one answer, and of `company` answers at once."""

    prompt: float
    alone: float
    together: float
    company: int


def speed(engine: Engine, prompts: Several[Task], new: int) -> Speed:
    """Of the longest prompt, and of answers of `new` tokens to the shortest."""
    longest, shortest = (choose(prompts, key=lambda task: len(task.ids)) for choose in (max, min))
    company = min(COMPANY, engine.loop.seating.max_rows)
    answer = replace(shortest, max_tokens=new + 1, logprobs=None)
    began = time.perf_counter()
    decoded(engine, [replace(longest, max_tokens=1, logprobs=None)])
    reading = time.perf_counter() - began
    return Speed(
        prompt=len(longest.ids) / reading,
        alone=new / decoded(engine, [answer]),
        together=company * new / decoded(engine, [answer] * company),
        company=company,
    )


def decoded(engine: Engine, tasks: Several[Task]) -> float:
    """Seconds from when all have begun their answers to the end."""
    with forgetful(engine):
        answers = asked(engine, tasks)
        while not all(answer.ids for answer in answers):
            engine.step()
        began = time.perf_counter()
        engine.finish()
        return time.perf_counter() - began
