"""The work of a server over time: a clock that goes as fast as the server computes."""

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from scripts.robustness.server import Server

Work = Callable[[Server], float]  # that a server has done so far: seconds of CPU time, or another amount
POLL_S = 0.5
RECENT_S = 3.0  # before a moment: as long as the server remembers its speed


class WorkDone(NamedTuple):
    at: float  # time.monotonic()
    amount: float


class WorkClock:
    """Work that was read now and then."""

    def __init__(self, readings: Sequence[WorkDone] = ()) -> None:
        self._readings = list(readings)

    @contextmanager
    def reading(self, server: Server, work: Work | None) -> Iterator[None]:
        """Read the work until the block ends. work: None if there is none to wait for"""
        if work is None:
            yield
            return
        over = threading.Event()

        def read() -> None:
            while not over.wait(POLL_S):
                amount = work(server)
                self._readings.append(WorkDone(time.monotonic(), amount))

        thread = threading.Thread(target=read)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def work_at(self, at: float) -> float:
        """The work until then; between two readings, it is spread evenly."""
        index = min(max(1, bisect_right(self._readings, (at,))), len(self._readings) - 1)
        before, after = self._readings[index - 1], self._readings[index]
        rate = (after.amount - before.amount) / (after.at - before.at)
        return before.amount + rate * (at - before.at)

    def seconds_at_speed_before(self, start: float, end: float) -> float | None:
        """The time of the work from `start` to `end` at the speed just before; None: unknown."""
        if len(self._readings) < 2:
            return None
        recent = self.work_at(start) - self.work_at(start - RECENT_S)
        return (self.work_at(end) - self.work_at(start)) * RECENT_S / recent if recent > 0 else None
