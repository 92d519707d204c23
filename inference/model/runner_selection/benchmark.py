"""Times two runners against each other on typical steps: one decode row, a decode batch, and a mixed batch.

Knows the Runner interface; not which runners exist.
"""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import torch

from inference.model.batch import Batch, Resize, Runner, make_batch
from inference.model.best_times import best_times, seconds_of
from inference.model.runner_selection.requirements import RunnerSize

log = logging.getLogger(__name__)

BuildRunner = Callable[[RunnerSize], Runner]

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


def speed_ratio(first: BuildRunner, second: BuildRunner, ids: Sequence[int], context: int) -> float:
    """Time of `second` divided by time of `first`: the geometric mean over WORKLOADS.

    Builds both runners and runs their steps alternately. Returns 1 if the context is shorter than 16 tokens
    or memory does not suffice for both. Not for tensor parallelism: each rank would time for itself, and the
    ranks could disagree.
    """
    columns = min(COLUMNS, context) // 16 * 16
    if columns < 16:
        return 1.0
    try:
        size = RunnerSize(ROWS, columns, kv_capacity=ROWS * columns)
        runners = [build(size) for build in (first, second)]
        for runner in runners:
            step = workload_batch(WORKLOADS[0], columns, ids, runner)  # allocates the runner's KV memory
            runner.forward(
                step if runner.capabilities.paged else replace(step, cache_ops=(Resize(ROWS, columns),))
            )
        gains = [
            log_ratio(runners, [workload_batch(workload, columns, ids, runner) for runner in runners])
            for workload in WORKLOADS
        ]
    except torch.OutOfMemoryError as error:
        log.info("not enough memory to time two runners: %s", error)
        return 1.0
    return math.exp(sum(gains) / len(gains))


def step_s(runner: Runner, columns: int, ids: Sequence[int]) -> float:
    """Seconds of a one-token step on a runner whose memory is already allocated; the best of STEPS."""
    step = workload_batch(WORKLOADS[0], columns, ids, runner)
    return min(seconds_of(partial(runner.forward, step)) for _ in range(STEPS))


def log_ratio(runners: Sequence[Runner], batches: Sequence[Batch]) -> float:
    """log(time of the second runner / time of the first), by the best time of each.

    The cached tokens are zeros, which cost as much as real ones.
    """
    runs = [partial(runner.forward, step) for runner, step in zip(runners, batches, strict=True)]
    first_s, second_s = best_times(runs, turns=TURNS, min_s=MIN_S, max_s=MAX_S)
    return math.log(second_s / first_s)


def workload_batch(workload: Workload, columns: int, ids: Sequence[int], runner: Runner) -> Batch:
    num_new = [max(1, share * columns // COLUMNS) for share in workload.new_shares]
    ends = list(accumulate(num_new))
    rows, paged = range(len(num_new)), runner.capabilities.paged
    pages = -(-columns // runner.page_size)
    return make_batch(
        token_ids=[ids[i % len(ids)] for i in range(ends[-1])],
        query_start_loc=[0, *ends],
        num_computed_tokens=[share * columns // COLUMNS for share in workload.computed_shares],
        rows=rows,
        logits_indices=[end - 1 for end in ends],
        page_table=[range(row * pages, (row + 1) * pages) for row in rows] if paged else (),
        page_size=runner.page_size if paged else columns,
    )
