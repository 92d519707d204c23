"""Measures how fast something that limits requests drains, to tell refused clients when to try again."""

import math
import time
from collections import deque
from collections.abc import Iterable, Sequence
from statistics import mean

from inference.errors import Overloaded

WINDOW_S = 10.0  # period over which the rate is measured
MIN_RETRY_S, MAX_RETRY_S = 1.0, 60.0  # shortest and longest wait suggested to clients
MAX_DURATIONS = 16
MEMORY_S = 3.0  # older steps hardly count for the time of a step


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


class StepTime:
    """Seconds from one step to the next, as recently measured: the older a step, the less it counts."""

    def __init__(self) -> None:
        self._num_steps = self._seconds = 0.0

    def record(self, num_steps: float, seconds: float) -> None:
        weight = math.exp(-seconds / MEMORY_S)
        self._num_steps = self._num_steps * weight + num_steps
        self._seconds = self._seconds * weight + seconds

    @property
    def seconds(self) -> float:
        """0 before the first step."""
        return self._seconds / self._num_steps if self._num_steps else 0.0


class RecentDurations:
    """The seconds that the last pieces of work took, where few run at a time. Any thread may ask.

    unknown_s  assumed of a piece of work before the first has ended
    """

    def __init__(self, unknown_s: float = 0.0) -> None:
        self.unknown_s = unknown_s
        self._seconds: deque[float] = deque(maxlen=MAX_DURATIONS)

    def record(self, seconds: float) -> None:
        self._seconds.append(seconds)

    @property
    def mean_s(self) -> float:
        """Seconds of one piece of work."""
        return mean(tuple(self._seconds) or (self.unknown_s,))

    def first_end_s(self, starts: Iterable[float]) -> float:
        """Seconds until the first of the running pieces ends; `starts`: time.monotonic() of each."""
        now = time.monotonic()
        return first_end_s([self.likely_s(now - start) for start in starts])

    def likely_s(self, elapsed_s: float) -> Sequence[float]:
        """By how much longer pieces outlasted `elapsed_s`."""
        return likely_rest(tuple(self._seconds) or (self.unknown_s,), elapsed_s)


def likely_rest(totals: Sequence[float], progress: float) -> Sequence[float]:
    """What may be left of a work after `progress`, judged by the totals of earlier works.

    One number for each total that was larger. Work that exceeds all of them is expected to do so by as much
    again.
    """
    return [total - progress for total in totals if total > progress] or [progress - max(totals)]


def first_end_s(remaining: Sequence[Sequence[float]]) -> float:
    """Seconds until the first of several pieces of work ends, of which each has some likely remaining times.

    The mean, over scenarios, of the earliest end: it is earlier than the mean end of each piece. In each
    scenario every piece takes one of its likely times.
    """
    if not remaining:
        return 0.0
    scenarios = range(max(map(len, remaining)))
    # Each piece begins with another of its times: scenario i is not the i-th of all of them.
    return mean(
        min(times[(scenario + index) % len(times)] for index, times in enumerate(remaining))
        for scenario in scenarios
    )


def overloaded(estimate_s: float | None, drained_s: float) -> Overloaded:
    """The error for a refused request: it names the estimate if there is one, else the time by the rate."""
    wait_s = drained_s if estimate_s is None else estimate_s
    return Overloaded(min(max(wait_s, MIN_RETRY_S), MAX_RETRY_S))
