"""Measures how fast something that limits requests drains, to tell refused clients when to try again."""

import time
from collections import deque
from collections.abc import Iterable, Sequence
from statistics import mean

from inference.errors import Overloaded

WINDOW_S = 10.0  # period over which the rate is measured
MIN_RETRY_S, MAX_RETRY_S = 1.0, 60.0  # shortest and longest wait suggested to clients
MAX_DURATIONS = 16


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


class RecentDurations:
    """The seconds that the last pieces of work took, where few run at a time. Any thread may ask."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=MAX_DURATIONS)

    def record(self, seconds: float) -> None:
        self._seconds.append(seconds)

    def mean_s(self, unknown_s: float) -> float:
        """Seconds of one piece of work; `unknown_s` before the first has ended."""
        seconds = tuple(self._seconds) or (unknown_s,)
        return sum(seconds) / len(seconds)

    def first_end_s(self, starts: Iterable[float]) -> float:
        """Seconds until the first of the running pieces ends; `starts`: time.monotonic() of each.

        The mean, over scenarios, of the earliest end: it is earlier than the mean end of each piece. In each
        scenario every piece takes one of its likely times.
        """
        now = time.monotonic()
        remaining = [self._likely_s(now - start) for start in starts]
        if not remaining:
            return 0.0
        scenarios = range(max(map(len, remaining)))
        # Each piece begins with another of its times: scenario i is not the i-th of all of them.
        ends = [
            min(times[(scenario + index) % len(times)] for index, times in enumerate(remaining))
            for scenario in scenarios
        ]
        return sum(ends) / len(ends)

    def last_end_s(self, starts: Iterable[float]) -> float:
        """Seconds until all of the running pieces have ended."""
        now = time.monotonic()
        return max((mean(self._likely_s(now - start)) for start in starts), default=0.0)

    def _likely_s(self, elapsed_s: float) -> Sequence[float]:
        """By how much longer pieces outlasted `elapsed_s`. Without any, it takes as long again."""
        remaining = [seconds - elapsed_s for seconds in tuple(self._seconds) if seconds > elapsed_s]
        return remaining or [elapsed_s]


def overloaded(estimate_s: float | None, drained_s: float) -> Overloaded:
    """The error for a refused request: it names the estimate if there is one, else the time by the rate."""
    wait_s = drained_s if estimate_s is None else estimate_s
    return Overloaded(min(max(wait_s, MIN_RETRY_S), MAX_RETRY_S))
