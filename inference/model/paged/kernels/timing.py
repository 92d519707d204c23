"""Measures how long an attention kernel takes for typical steps.

Knows the clock; not whether the results are right.
"""

import logging
import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch

from inference.model.best_times import seconds_of
from inference.model.paged.attention import AttentionKernel
from inference.model.paged.cuda import CudaGraphRecorder
from inference.model.paged.kernels.shapes import AttentionShape
from inference.model.paged.kernels.verify import make_sample

log = logging.getLogger(__name__)

NUM_REPEATS, CALLS_PER_REPEAT = 5, 10  # repetitions, and calls timed together in each
LENGTH = 512  # tokens of the longest row


class AttentionWorkload(NamedTuple):
    """A step to time.

    rows       (tokens in the step, tokens in all) of each row
    is_decode  each row has one token in the step, so a kernel that supports CUDA graphs is replayed from one
    """

    rows: tuple[tuple[int, int], ...]
    is_decode: bool


WORKLOADS = (
    *(AttentionWorkload(tuple((1, LENGTH - 7 * row) for row in range(rows)), True) for rows in (1, 8, 32)),
    AttentionWorkload(((256, 300), *((1, LENGTH - 7 * row) for row in range(31))), False),
)


def times(
    kernel: AttentionKernel, shapes: Counter[AttentionShape], page_size: int, supports_cuda_graphs: bool
) -> list[float]:
    """Seconds that the attention of all layers of a model takes, for each of WORKLOADS."""
    return [
        sum(
            layers
            * seconds(
                partial(kernel, *make_sample(each, workload.rows, page_size)),
                each.device,
                supports_cuda_graphs and workload.is_decode,
            )
            for each, layers in shapes.items()
        )
        for workload in WORKLOADS
    ]


def speed_ratio(ours: list[float], theirs: list[float]) -> float:
    """By what factor `ours` is faster than `theirs`: the geometric mean over the workloads."""
    return math.exp(sum(math.log(b / a) for a, b in zip(ours, theirs, strict=True)) / len(ours))


def seconds(call: Callable[[], torch.Tensor], device: torch.device, uses_graph: bool) -> float:
    """The best time of one call, or of its replay from a CUDA graph."""
    call()  # compiles the kernel, and fills per_step_cache
    run = CudaGraphRecorder(device)(call) if uses_graph else call

    def repeat() -> None:
        for _ in range(CALLS_PER_REPEAT):
            run()

    return min(seconds_of(repeat) for _ in range(NUM_REPEATS)) / CALLS_PER_REPEAT
