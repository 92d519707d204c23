"""The ways in which an engine may come to compute an answer, none of which may change it.

Drives an engine that has not been started, step by step. Knows tasks and answers; judges nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Ids
from collections.abc import Sequence as Several
from contextlib import contextmanager
from functools import partial

from inference.engine.engine import Engine
from inference.engine.scheduler import Plan
from inference.engine.seating import Seating
from inference.engine.sequence import Sequence, Task
from inference.engine.speculate import Speculator, guessable, room
from selftest.asked import Answer

EVERY = 3  # steps from one preemption, or one arrival, to the next
AHEAD = 5  # drafts

Way = Callable[[Engine, Several[Task]], list[Answer]]


def alone(engine: Engine, tasks: Several[Task]) -> list[Answer]:
    """One after the other, none with anything that another has computed."""
    answers = []
    with forgetful(engine):
        for task in tasks:
            answers += asked(engine, [task])
            engine.finish()
    return answers


def batched(engine: Engine, tasks: Several[Task]) -> list[Answer]:
    """All at once."""
    answers = asked(engine, tasks)
    engine.finish()
    return answers


def beside(engine: Engine, tasks: Several[Task]) -> list[Answer]:
    """One joins after the other, each with a neighbour that is cancelled when the next one joins."""
    answers = []
    for task in tasks:
        neighbour = engine.submit([Task(task.ids[::-1], task.max_tokens)], [Answer()])
        answers += asked(engine, [task])
        for _ in range(EVERY):
            engine.step()
        engine.cancel(neighbour)
    engine.finish()
    return answers


def preempted(engine: Engine, tasks: Several[Task]) -> list[Answer]:
    """All at once; each, when it has begun to answer, loses its place once and begins anew."""
    answers = [Answer() for _ in tasks]
    left = set(engine.submit(tasks, answers))
    steps = 0
    while engine.step():
        steps += 1
        ready = [s for s in engine.loop.scheduler.running if s.id in left and s.generated > 1]
        if ready and steps % EVERY == 0:
            left.remove(ready[0].id)
            engine.loop.scheduler.preempt(ready[0])
    return answers


def again(engine: Engine, tasks: Several[Task]) -> list[Answer]:
    """Asked a second time, one after the other, with what the first time left in the memory."""
    batched(engine, tasks)
    answers = []
    for task in tasks:
        answers += asked(engine, [task])
        engine.finish()
    return answers


def drafted(right: Several[Answer], engine: Engine, tasks: Several[Task]) -> list[Answer]:
    """All at once, with guesses at what comes next, most of which are right."""
    loop, speculator = engine.loop, engine.loop.speculator
    loop.speculator = Foretold(
        loop.seating, {task.ids: answer.ids for task, answer in zip(tasks, right, strict=True)}
    )
    try:
        return batched(engine, tasks)
    finally:
        loop.speculator = speculator


class Foretold(Speculator):
    """Guesses what the answers to known prompts have been; every third time the last guess is wrong."""

    def __init__(self, seating: Seating, answers: dict[Ids[int], list[int]]) -> None:
        super().__init__(seating, AHEAD)
        self.answers = answers

    def draft(self, plan: Plan, budget: int) -> None:
        for sequence, _ in plan:
            sequence.drafts = self.guess(sequence) if guessable(sequence) else []

    def guess(self, sequence: Sequence) -> list[int]:
        done = sequence.generated
        guess = self.answers[sequence.task.ids][done : done + min(AHEAD, room(sequence, self.seating))]
        return guess if done % 3 or not guess else [*guess[:-1], guess[-1] ^ 1]


@contextmanager
def forgetful(engine: Engine) -> Iterator[None]:
    """Nothing computed before is found again."""
    seating, keeps = engine.loop.seating, engine.loop.seating.keeps
    seating.keeps = False
    try:
        yield
    finally:
        seating.keeps = keeps


def asked(engine: Engine, tasks: Several[Task]) -> list[Answer]:
    answers = [Answer() for _ in tasks]
    engine.submit(tasks, answers)
    return answers


def ways(engine: Engine, right: Several[Answer]) -> Mapping[str, Way]:
    """All that may not change `right`, by name; without drafts where the engine takes none."""
    found: dict[str, Way] = {
        "batched": batched,
        "neighbours": beside,
        "preempted": preempted,
        "prefix": again,
    }
    scheduler = engine.loop.scheduler
    drafts = not (scheduler.whole or scheduler.pieces.size)
    return found | ({"drafts": partial(drafted, right)} if drafts else {})
