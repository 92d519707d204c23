"""Times functions against each other: each runs several times, alternately, and its best time counts.

Knows the clock and the device's queue; not what is timed.
"""

import math
import time
from collections.abc import Callable, Sequence

import torch


def best_times(
    runs: Sequence[Callable[[], object]], *, turns: int, min_s: float = 0.0, max_s: float = math.inf
) -> list[float]:
    """Repeat functions alternately; returns the shortest time of each in seconds.

    At least `turns` turns and min_s seconds, but none after max_s seconds. The first turn is the warm-up.
    """
    best = [math.inf] * len(runs)
    turn, began, passed = 0, time.perf_counter(), 0.0
    while passed < max_s and (turn < turns or passed < min_s):
        elapsed = [seconds_of(run) for run in runs]
        best = [min(pair) for pair in zip(best, elapsed, strict=True)] if turn else elapsed
        turn, passed = turn + 1, time.perf_counter() - began
    return best


def seconds_of(run: Callable[[], object]) -> float:
    """Seconds of one call, including the GPU work that it queues."""
    synchronize()
    began = time.perf_counter()
    run()
    synchronize()
    return time.perf_counter() - began


def synchronize() -> None:
    """Wait for queued GPU work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
