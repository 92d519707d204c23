"""Keeps requests away from a server that fails: it rests, then one request tries it."""

from collections import deque

IN_A_ROW = 3  # failures that open the breaker
WINDOW_S, MIN_REQUESTS, FAILED_SHARE = 30.0, 10, 0.5  # so does this share of the latest requests
FIRST_REST_S, MAX_REST_S = 5.0, 60.0


class Breaker:
    """The state of one server. Times are those of one clock, in seconds. Use it in one thread.

    problem    the message of the latest failure; empty after a success
    failed_at  the time of it
    is_down    the server could not be reached the last time
    """

    def __init__(self) -> None:
        self.problem = ""
        self.failed_at = 0.0
        self.is_down = False
        self._is_leaving = False
        self._rests_until = 0.0
        self._rest_s = 0.0
        self._num_in_a_row = 0
        self._is_tried = False
        self._outcomes: deque[tuple[float, bool]] = deque()  # (time, whether it failed)

    def allows(self, now: float) -> bool:
        """Whether the server may get a request: one at a time after a rest, until one succeeds."""
        return self.has_rested(now) and not (self._rest_s and self._is_tried)

    def is_open(self, now: float) -> bool:
        return self._rest_s > 0 or now < self._rests_until

    def is_due(self, now: float) -> bool:
        """Whether the server is to be asked if it is back: after its rest, or during it if it may restart."""
        if self.is_down or self._is_leaving:
            return self.is_open(now)
        return self._rest_s > 0 and self.has_rested(now)

    @property
    def is_failing(self) -> bool:
        """Whether failures keep requests away; a rest that the server asked for does not count."""
        return self._rest_s > 0

    def has_rested(self, now: float) -> bool:
        return now >= self._rests_until

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
        self.is_down = self._is_leaving = False

    def fail(self, now: float, problem: str, *, is_down: bool = False) -> None:
        """Count a failure of the server. is_down: it could not be reached."""
        self._note(now, has_failed=True)
        self._num_in_a_row += 1
        self.problem, self.failed_at, self.is_down = problem, now, is_down
        num_failed = sum(has_failed for _, has_failed in self._outcomes)
        is_flaky = len(self._outcomes) >= MIN_REQUESTS and num_failed >= FAILED_SHARE * len(self._outcomes)
        if self._num_in_a_row >= IN_A_ROW or is_flaky:
            self._rest_s = min(MAX_REST_S, 2 * self._rest_s or FIRST_REST_S)
            self._rests_until = now + self._rest_s

    def rest(self, now: float, seconds: float, problem: str, *, is_leaving: bool = False) -> None:
        """The server has said that it takes no requests for a time. is_leaving: it may be shutting down."""
        self._is_tried = False
        self.problem, self.failed_at, self._is_leaving = problem, now, is_leaving
        self._rests_until = max(self._rests_until, now + seconds)

    def stay_down(self, now: float, problem: str) -> None:
        """The server was asked whether it is back, and could not be reached. It rests until it can be."""
        self.problem, self.is_down = problem, True
        self._rest_s = self._rest_s or FIRST_REST_S
        self._rests_until = max(self._rests_until, now + FIRST_REST_S)

    def restart(self, now: float) -> None:
        """The server was down and answers again: what its former process did does not count."""
        self._outcomes.clear()
        self.succeed(now)

    def _note(self, now: float, *, has_failed: bool) -> None:
        self._is_tried = False
        self._outcomes.append((now, has_failed))
        while self._outcomes[0][0] < now - WINDOW_S:
            self._outcomes.popleft()
