"""Measures how fast something that limits requests drains, to tell refused clients when to try again."""

import time
from collections import deque

from inference.errors import Overloaded

WINDOW_S = 10.0  # period over which the rate is measured
MIN_RETRY_S, MAX_RETRY_S = 1.0, 60.0  # shortest and longest wait suggested to clients


class DrainRate:
    """The amounts that were released during the last WINDOW_S. Not thread-safe."""

    def __init__(self, unknown_s: float = WINDOW_S) -> None:
        """`unknown_s`: the seconds that are named while nothing has drained."""
        self.unknown_s = unknown_s
        self._released: deque[tuple[float, int]] = deque()

    def record(self, amount: int) -> None:
        self._released.append((time.monotonic(), amount))
        self._drop_old()

    def seconds_for(self, excess: int) -> float:
        """Seconds until `excess` has drained."""
        self._drop_old()
        total = sum(amount for _, amount in self._released)
        if not total:
            return self.unknown_s
        elapsed_s = max(time.monotonic() - self._released[0][0], 1.0)
        return excess * elapsed_s / total

    def _drop_old(self) -> None:
        oldest = time.monotonic() - WINDOW_S
        while self._released and self._released[0][0] < oldest:
            self._released.popleft()


def overloaded(estimate_s: float | None, drained_s: float) -> Overloaded:
    """The error for a refused request: it names the estimate if there is one, else the time by the rate."""
    wait_s = drained_s if estimate_s is None else estimate_s
    return Overloaded(min(max(wait_s, MIN_RETRY_S), MAX_RETRY_S))
