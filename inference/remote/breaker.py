"""Keeps requests away from a server that fails: it rests, then one request tries it."""

from collections import deque

IN_A_ROW = 3  # failures that open the breaker
WINDOW_S, MIN_REQUESTS, FAILED_SHARE = 30.0, 10, 0.5  # so does this share of the latest requests
FIRST_REST_S, MAX_REST_S = 5.0, 60.0


class Breaker:
    """The state of one server. Times are those of one clock, in seconds. Use it in one thread.

    problem    the message of the latest failure; empty after a success
    failed_at  the time of it
    """

    def __init__(self) -> None:
        self.problem = ""
        self.failed_at = 0.0
        self._rests_until = 0.0
        self._rest_s = 0.0
        self._num_in_a_row = 0
        self._is_tried = False
        self._outcomes: deque[tuple[float, bool]] = deque()  # (time, whether it failed)

    def allows(self, now: float) -> bool:
        """Whether the server may get a request: one at a time after a rest, until one succeeds."""
        return now >= self._rests_until and not (self._rest_s and self._is_tried)

    def is_open(self, now: float) -> bool:
        return self._rest_s > 0 or now < self._rests_until

    def is_due(self, now: float) -> bool:
        """Whether the server has rested after failures, and is to be asked whether it is back."""
        return self._rest_s > 0 and now >= self._rests_until

    def rest_s(self, now: float) -> float:
        """Seconds until the server may be tried."""
        return max(0.0, self._rests_until - now)

    @property
    def takes_trial(self) -> bool:
        """Whether no request tries the server now."""
        return not self._is_tried

    def start(self, now: float) -> None:
        """A request is sent. While the breaker is open, it is the one that tries the server."""
        self._is_tried = self._is_tried or self.is_open(now)

    def cancel(self) -> None:
        """A request has ended in a way that says nothing about the server."""
        self._is_tried = False

    def succeed(self, now: float) -> None:
        self._note(now, has_failed=False)
        self._num_in_a_row, self._rest_s, self._rests_until, self.problem = 0, 0.0, 0.0, ""

    def fail(self, now: float, problem: str) -> None:
        self._note(now, has_failed=True)
        self._num_in_a_row += 1
        self.problem, self.failed_at = problem, now
        num_failed = sum(has_failed for _, has_failed in self._outcomes)
        is_flaky = len(self._outcomes) >= MIN_REQUESTS and num_failed >= FAILED_SHARE * len(self._outcomes)
        if self._num_in_a_row >= IN_A_ROW or is_flaky:
            self._rest_s = min(MAX_REST_S, 2 * self._rest_s or FIRST_REST_S)
            self._rests_until = now + self._rest_s

    def rest(self, now: float, seconds: float, problem: str) -> None:
        """The server has said that it takes no requests for a time."""
        self._is_tried = False
        self.problem, self.failed_at = problem, now
        self._rests_until = max(self._rests_until, now + seconds)

    def _note(self, now: float, *, has_failed: bool) -> None:
        self._is_tried = False
        self._outcomes.append((now, has_failed))
        while self._outcomes[0][0] < now - WINDOW_S:
            self._outcomes.popleft()
