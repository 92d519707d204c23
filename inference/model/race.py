"""Which of two runners is faster at what a server mostly computes: a few steps, timed.

Knows runners and the clock; not which seats there are.
"""

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

import torch

from inference.model.batch import Batch, Runner, Shape

log = logging.getLogger(__name__)

ROWS = 8
COLUMNS = 256  # at most; fewer where the context is short
TIE = 0.97  # a ratio that decides nothing


class Course(NamedTuple):
    """A step to time: for each row, the tokens it holds and those it takes, in 256ths of the columns."""

    held: tuple[int, ...]
    taken: tuple[int, ...]


ONE = 0  # takes one token, however many the columns
COURSES = (
    Course((100,), (ONE,)),
    Course((40, 180, 90, 20, 130, 60, 30, 110), (ONE,) * ROWS),
    Course((40, 180, 90, 20, 130, 60, 30, 0), (*(ONE,) * (ROWS - 1), 64)),
)
TURNS = 4  # at least, the first of which warms up
LONG_S = 0.2  # a course is run for so long where its steps are short
PATIENCE_S = 1.0  # and not repeated once it has taken so long
SLOW_S = 0.05  # a step of one token that takes so long is mostly the passage of the weights
STEPS = 3  # of one token, to see how long it takes


def ratio(
    ours: Callable[..., Runner], theirs: Callable[..., Runner], ids: Sequence[int], context: int
) -> float:
    """How many times as long the second takes as the first, in the geometric mean of the courses.

    They are made for the race, and run in turns. 1 where the context is too short, or memory for both.
    Not for a model that several processes share: their clocks would part them.
    """
    columns = min(COLUMNS, context) // 16 * 16
    if columns < 16:
        return 1.0
    try:
        runners = [make(max_rows=ROWS, context=columns, area=ROWS * columns) for make in (ours, theirs)]
        for runner in runners:
            begin(runner, columns, ids)
        gains = [
            gain(runners, [batch(course, columns, ids, runner) for runner in runners]) for course in COURSES
        ]
    except torch.OutOfMemoryError as error:
        log.info("too little memory to time two seats: %s", error)
        return 1.0
    return math.exp(sum(gains) / len(gains))


def step_s(runner: Runner, columns: int, ids: Sequence[int]) -> float:
    """Seconds of a step of one token, by a runner that has memory for rows of so many columns."""
    step = batch(COURSES[0], columns, ids, runner)
    return min(seconds(runner, step) for _ in range(STEPS))


def gain(runners: Sequence[Runner], batches: Sequence[Batch]) -> float:
    """The logarithm of the second's time over the first's."""
    began = time.perf_counter()
    best = [math.inf, math.inf]
    turn, passed = 0, 0.0
    while passed < PATIENCE_S and (turn < TURNS or passed < LONG_S):
        for place, (runner, step) in enumerate(zip(runners, batches, strict=True)):
            taken = seconds(runner, step)
            best[place] = min(best[place], taken) if turn else taken
        turn, passed = turn + 1, time.perf_counter() - began
    return math.log(best[1] / best[0])


def seconds(runner: Runner, step: Batch) -> float:
    """The time of one step. What its rows hold is blank, which costs the same."""
    settle()
    began = time.perf_counter()
    runner.forward(step)
    settle()
    return time.perf_counter() - began


def settle() -> None:
    """Wait for what was asked of a GPU."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def begin(runner: Runner, columns: int, ids: Sequence[int]) -> None:
    """Have the runner make its memory."""
    first = batch(COURSES[0], columns, ids, runner)
    runner.forward(first if runner.paged else replace(first, moves=(Shape(ROWS, columns),)))


def batch(course: Course, columns: int, ids: Sequence[int], runner: Runner) -> Batch:
    taken = [max(1, share * columns // COLUMNS) for share in course.taken]
    ends = list(accumulate(taken))
    rows = range(len(taken))
    pages = -(-columns // runner.step)
    return Batch(
        ids=[ids[i % len(ids)] for i in range(ends[-1])],
        starts=[0, *ends],
        cached=[share * columns // COLUMNS for share in course.held],
        rows=rows,
        want=[end - 1 for end in ends],
        tables=[range(row * pages, (row + 1) * pages) for row in rows] if runner.paged else (),
    )
