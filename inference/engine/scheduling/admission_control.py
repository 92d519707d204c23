"""Limits the prompt tokens that wait. A sequence counts from its submission until it starts.

Thread-safe. The lock makes the limit exact and keeps requests from being queued after closing. It is taken at
the submission, start and end of a sequence, never for a decoded token.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from inference.drain_rate import DrainRate, overloaded
from inference.errors import Unavailable


class AdmissionControl:
    """The queue limit, the sequences that count towards it, and the rate at which they start.

    estimate_wait  returns the seconds until so many tokens have started; None: the rate is used
    """

    def __init__(self, max_queued_tokens: int) -> None:
        self.max_queued_tokens = max_queued_tokens
        self.queued_tokens = 0
        self.closed_reason = self.paused_reason = ""
        self.estimate_wait: Callable[[int], float | None] = lambda excess: None
        self._tokens_by_id: dict[int, int] = {}
        self._drain_rate = DrainRate()
        self._lock = threading.Lock()

    @contextmanager
    def admit(self, tokens_by_id: Mapping[int, int]) -> Iterator[None]:
        """Count sequences in; the body queues them, and `close` cannot run before it ends.

        tokens_by_id: sequence id → prompt tokens. Raises Overloaded if more than `max_queued_tokens` would
        wait, unless nothing waits; Unavailable while paused and once closed.
        """
        num_tokens = sum(tokens_by_id.values())
        with self._lock:
            if reason := self.closed_reason or self.paused_reason:
                raise Unavailable(reason)
            excess = min(self.queued_tokens + num_tokens - self.max_queued_tokens, self.queued_tokens)
            if excess <= 0:
                self.queued_tokens += num_tokens
                self._tokens_by_id.update(tokens_by_id)
                yield
                return
            drained_s = self._drain_rate.seconds_for(excess)
        raise overloaded(self.estimate_wait(excess), drained_s)  # outside the lock: the estimate takes time

    def release(self, id: int) -> bool:
        """Stop counting the sequence; returns whether it was counted until now."""
        with self._lock:
            num_tokens = self._tokens_by_id.pop(id, None)
            self.queued_tokens -= num_tokens or 0
            self._drain_rate.record(num_tokens or 0)
        return num_tokens is not None

    def close(self, reason: str) -> None:
        """Refuse all further sequences. Only the first reason is recorded."""
        with self._lock:
            self.closed_reason = self.closed_reason or reason

    def pause(self, reason: str) -> None:
        """Refuse sequences until `resume`."""
        with self._lock:
            self.paused_reason = reason

    def resume(self) -> None:
        with self._lock:
            self.paused_reason = ""
