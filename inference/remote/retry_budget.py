"""Limits how many requests to an upstream are sent again: retries must not multiply the load of a failure."""

from collections import deque

WINDOW_S = 10.0
SHARE = 0.2  # of the requests in the window
ALLOWANCE = 3  # retries that are always allowed in a window


class RetryBudget:
    """Counts the requests and retries of the last WINDOW_S seconds. Use it in one thread."""

    def __init__(self) -> None:
        self._requests: deque[float] = deque()
        self._retries: deque[float] = deque()

    def record_request(self, now: float) -> None:
        self._forget(now)
        self._requests.append(now)

    def take(self, now: float) -> bool:
        """Whether one more retry is allowed now; it is then counted."""
        self._forget(now)
        if len(self._retries) >= SHARE * len(self._requests) + ALLOWANCE:
            return False
        self._retries.append(now)
        return True

    def _forget(self, now: float) -> None:
        for times in (self._requests, self._retries):
            while times and times[0] < now - WINDOW_S:
                times.popleft()
