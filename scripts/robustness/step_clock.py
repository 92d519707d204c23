"""The steps of a server's engine over time: a clock that goes as fast as the server computes."""

import threading
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from scripts.robustness.server import Server

POLL_S = 0.5
RECENT_S = 3.0  # before a moment: as long as the server remembers the time of a step


class StepCount(NamedTuple):
    at: float  # time.monotonic()
    num_steps: float


class StepClock:
    """Steps that were counted now and then."""

    def __init__(self, counts: Sequence[StepCount] = ()) -> None:
        self._counts = list(counts)

    @contextmanager
    def counting(self, server: Server, metric: str) -> Iterator[None]:
        """Count until the block ends. metric: of the server, counts the steps; empty: there is none"""
        if not metric:
            yield
            return
        over = threading.Event()

        def count() -> None:
            while not over.wait(POLL_S):
                num_steps = server.metric(metric)
                self._counts.append(StepCount(time.monotonic(), num_steps))

        thread = threading.Thread(target=count)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def steps_at(self, at: float) -> float:
        """Steps until then; between two counts, they are spread evenly."""
        index = min(max(1, bisect_right(self._counts, (at,))), len(self._counts) - 1)
        before, after = self._counts[index - 1], self._counts[index]
        rate = (after.num_steps - before.num_steps) / (after.at - before.at)
        return before.num_steps + rate * (at - before.at)

    def seconds_at_speed_before(self, start: float, end: float) -> float | None:
        """The time of the steps from `start` to `end` if they were as fast as those before; None: unknown."""
        if len(self._counts) < 2:
            return None
        num_recent = self.steps_at(start) - self.steps_at(start - RECENT_S)
        return (self.steps_at(end) - self.steps_at(start)) * RECENT_S / num_recent if num_recent > 0 else None
