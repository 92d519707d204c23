"""Times two runners against each other on typical steps: one decode row, a decode batch, and a mixed batch.

Knows the Runner interface; not which runners exist.
"""

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import torch

from inference.model.batch import Batch, Resize, Runner

log = logging.getLogger(__name__)

ROWS = 8
COLUMNS = 256  # upper limit of tokens per row; a shorter context has fewer
TIE = 0.97  # speed ratio from which the earlier of two runners is kept


class Workload(NamedTuple):
    """A step to time: for each row, its cached tokens and its new tokens, in 256ths of the columns."""

    computed_shares: tuple[int, ...]
    new_shares: tuple[int, ...]


ONE = 0  # share of a row that computes one new token
WORKLOADS = (
    Workload((100,), (ONE,)),
    Workload((40, 180, 90, 20, 130, 60, 30, 110), (ONE,) * ROWS),
    Workload((40, 180, 90, 20, 130, 60, 30, 0), (*(ONE,) * (ROWS - 1), 64)),
)
TURNS = 4  # minimum repetitions of a workload; the first one is the warm-up
MIN_S = 0.2  # minimum seconds spent on a workload
MAX_S = 1.0  # seconds after which a workload is not repeated
SLOW_S = 0.05  # a one-token step slower than this is bound by reading the weights, on any runner
STEPS = 3  # one-token steps timed by step_s


def speed_ratio(
    first: Callable[..., Runner], second: Callable[..., Runner], ids: Sequence[int], context: int
) -> float:
    """Time of `second` divided by time of `first`: the geometric mean over WORKLOADS.

    Builds both runners and runs their steps alternately. Returns 1 if the context is shorter than 16 tokens
    or memory does not suffice for both. Not for tensor parallelism: each rank would time for itself, and the
    ranks could disagree.
    """
    columns = min(COLUMNS, context) // 16 * 16
    if columns < 16:
        return 1.0
    try:
        runners = [
            build(max_sequences=ROWS, context=columns, kv_capacity=ROWS * columns)
            for build in (first, second)
        ]
        for runner in runners:
            step = make_batch(WORKLOADS[0], columns, ids, runner)  # allocates the runner's KV memory
            runner.forward(step if runner.paged else replace(step, cache_ops=(Resize(ROWS, columns),)))
        gains = [
            log_ratio(runners, [make_batch(workload, columns, ids, runner) for runner in runners])
            for workload in WORKLOADS
        ]
    except torch.OutOfMemoryError as error:
        log.info("not enough memory to time two runners: %s", error)
        return 1.0
    return math.exp(sum(gains) / len(gains))


def step_s(runner: Runner, columns: int, ids: Sequence[int]) -> float:
    """Seconds of a one-token step on a runner whose memory is already allocated; the best of STEPS."""
    step = make_batch(WORKLOADS[0], columns, ids, runner)
    return min(seconds(runner, step) for _ in range(STEPS))


def log_ratio(runners: Sequence[Runner], batches: Sequence[Batch]) -> float:
    """log(time of the second runner / time of the first), by the best time of each."""
    runs = [partial(seconds, runner, step) for runner, step in zip(runners, batches, strict=True)]
    first_s, second_s = best_times(runs, turns=TURNS, min_s=MIN_S, max_s=MAX_S)
    return math.log(second_s / first_s)


def best_times(
    runs: Sequence[Callable[[], float]], *, turns: int, min_s: float, max_s: float = math.inf
) -> list[float]:
    """Repeat functions that return their own seconds, alternately; returns the best time of each.

    At least `turns` turns and min_s seconds, but none after max_s seconds. The first turn is the warm-up.
    """
    best = [math.inf] * len(runs)
    turn, began, passed = 0, time.perf_counter(), 0.0
    while passed < max_s and (turn < turns or passed < min_s):
        elapsed = [run() for run in runs]
        best = [min(pair) for pair in zip(best, elapsed, strict=True)] if turn else elapsed
        turn, passed = turn + 1, time.perf_counter() - began
    return best


def seconds(runner: Runner, step: Batch) -> float:
    """Seconds of one step. The cached tokens are zeros, which cost as much as real ones."""
    synchronize()
    began = time.perf_counter()
    runner.forward(step)
    synchronize()
    return time.perf_counter() - began


def synchronize() -> None:
    """Wait for queued GPU work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def make_batch(workload: Workload, columns: int, ids: Sequence[int], runner: Runner) -> Batch:
    num_new = [max(1, share * columns // COLUMNS) for share in workload.new_shares]
    ends = list(accumulate(num_new))
    rows = range(len(num_new))
    pages = -(-columns // runner.page_size)
    return Batch(
        token_ids=[ids[i % len(ids)] for i in range(ends[-1])],
        query_start_loc=[0, *ends],
        num_computed_tokens=[share * columns // COLUMNS for share in workload.computed_shares],
        rows=rows,
        logits_indices=[end - 1 for end in ends],
        page_table=[range(row * pages, (row + 1) * pages) for row in rows] if runner.paged else (),
    )
