"""How long a kernel takes for what a server mostly computes.

Knows the clock; not whether what is computed is right.
"""

import logging
import math
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch

from inference.model.packed.attention import Kernel
from inference.model.packed.cuda import Recorder
from inference.model.packed.kernels.asked import Asked
from inference.model.packed.kernels.proof import Sample, sampled

log = logging.getLogger(__name__)

TURNS, CALLS = 5, 10
LENGTH = 512


class Course(NamedTuple):
    """A step: of its rows, (tokens on the line, tokens in all). answers: each takes one, so that it would be
    replayed from a CUDA graph where the kernel can be."""

    rows: tuple[tuple[int, int], ...]
    answers: bool


COURSES = (
    *(Course(tuple((1, LENGTH - 7 * row) for row in range(rows)), True) for rows in (1, 8, 32)),
    Course(((256, 300), *((1, LENGTH - 7 * row) for row in range(31))), False),
)


def times(kernel: Kernel, asked: Counter[Asked], size: int, captures: bool) -> list[float]:
    """Seconds that all layers of a model take, for each course."""
    return [
        sum(
            layers * seconds(kernel, sampled(each, course.rows, size), captures and course.answers)
            for each, layers in asked.items()
        )
        for course in COURSES
    ]


def ratio(ours: list[float], theirs: list[float]) -> float:
    """How many times as long the others take, in the geometric mean."""
    return math.exp(sum(math.log(b / a) for a, b in zip(ours, theirs, strict=True)) / len(ours))


def seconds(kernel: Kernel, sample: Sample, captures: bool) -> float:
    """Of one call, the least of a few turns."""
    query, pages, line, options = sample
    call = partial(kernel, query, pages, line, **options)
    call()  # compiles, and makes what the layers of a step share
    play = Recorder(query.device)(call) if captures else call
    return min(turn(play, query.device) for _ in range(TURNS)) / CALLS


def turn(play: Callable[[], object], device: torch.device) -> float:
    settle(device)
    began = time.perf_counter()
    for _ in range(CALLS):
        play()
    settle(device)
    return time.perf_counter() - began


def settle(device: torch.device) -> None:
    """Wait for what was asked of a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
