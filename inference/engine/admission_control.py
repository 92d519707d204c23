"""Limits the prompt tokens that wait. A sequence counts from its submission until it starts.

Thread-safe. The lock makes the limit exact and keeps requests from being queued after closing. It is taken at
the submission, start and end of a sequence, never for a decoded token.
"""

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from inference.errors import Overloaded, Unavailable

RATE_WINDOW_S = 10.0  # period over which the drain rate is measured
MAX_RETRY_S = 60.0  # longest wait suggested to clients


class AdmissionControl:
    """The queue limit, the sequences that count towards it, and the rate at which they start."""

    def __init__(self, max_queued_tokens: int) -> None:
        self.max_queued_tokens = max_queued_tokens
        self.queued_tokens = 0
        self.closed_reason = ""
        self._tokens_by_id: dict[int, int] = {}
        self._drain_log: deque[tuple[float, int]] = deque()
        self._lock = threading.Lock()

    @contextmanager
    def admit(self, tokens_by_id: Mapping[int, int]) -> Iterator[None]:
        """Count sequences in; the body queues them, and `close` cannot run before it ends.

        tokens_by_id: sequence id → prompt tokens. Raises Overloaded if more than `max_queued_tokens` would
        wait, unless nothing waits; Unavailable once closed.
        """
        num_tokens = sum(tokens_by_id.values())
        with self._lock:
            if self.closed_reason:
                raise Unavailable(self.closed_reason)
            if self.queued_tokens and self.queued_tokens + num_tokens > self.max_queued_tokens:
                raise Overloaded(self._retry_after(self.queued_tokens + num_tokens - self.max_queued_tokens))
            self.queued_tokens += num_tokens
            self._tokens_by_id.update(tokens_by_id)
            yield

    def release(self, id: int) -> bool:
        """Stop counting the sequence; returns whether it was counted until now."""
        with self._lock:
            num_tokens = self._tokens_by_id.pop(id, 0)
            self.queued_tokens -= num_tokens
            self._drain_log.append((time.monotonic(), num_tokens))
            self._drop_old()
        return num_tokens > 0

    def close(self, reason: str) -> None:
        """Refuse all further sequences. Only the first reason is recorded."""
        with self._lock:
            self.closed_reason = self.closed_reason or reason

    def _retry_after(self, excess: int) -> float:
        """Seconds until `excess` tokens have drained, at the rate of the last RATE_WINDOW_S."""
        self._drop_old()
        num_drained = sum(num_tokens for _, num_tokens in self._drain_log)
        if not num_drained:
            return RATE_WINDOW_S
        elapsed = max(time.monotonic() - self._drain_log[0][0], 1.0)
        return min(max(excess * elapsed / num_drained, 1.0), MAX_RETRY_S)

    def _drop_old(self) -> None:
        oldest = time.monotonic() - RATE_WINDOW_S
        while self._drain_log and self._drain_log[0][0] < oldest:
            self._drain_log.popleft()
