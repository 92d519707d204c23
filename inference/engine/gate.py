"""How much may wait: prompt tokens are counted in as they are submitted and out as they begin to be computed.

Used by every thread. Its lock guards one count, so that the limit is exact and nothing is queued behind a
closed gate; it is taken once a request, never in a step that only decodes.
"""

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from inference.errors import Overloaded, Unavailable

WINDOW_S = 10.0  # how far back the rate of draining is measured
LONGEST_S = 60.0  # longest wait that is advised


class Gate:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.waiting = 0
        self.closed = ""
        self._tokens: dict[int, int] = {}
        self._drained: deque[tuple[float, int]] = deque()
        self._lock = threading.Lock()

    @contextmanager
    def enter(self, tokens: Mapping[int, int]) -> Iterator[None]:
        """Count tokens (sequence id → prompt tokens) in; the body queues them before the gate can close.

        Raises Overloaded when more than `limit` would wait, unless nothing waits; Unavailable once closed.
        """
        total = sum(tokens.values())
        with self._lock:
            if self.closed:
                raise Unavailable(self.closed)
            if self.waiting and self.waiting + total > self.limit:
                raise Overloaded(self._retry_after(self.waiting + total - self.limit))
            self.waiting += total
            self._tokens.update(tokens)
            yield

    def leave(self, id: int) -> bool:
        """Count the sequence out; returns whether it was still counted."""
        with self._lock:
            tokens = self._tokens.pop(id, 0)
            self.waiting -= tokens
            self._drained.append((time.monotonic(), tokens))
            self._forget()
        return tokens > 0

    def close(self, reason: str) -> None:
        """Let nobody in any more. The first reason stands."""
        with self._lock:
            self.closed = self.closed or reason

    def _retry_after(self, excess: int) -> float:
        """Seconds until `excess` tokens have drained, at the rate of the last WINDOW_S."""
        self._forget()
        drained = sum(tokens for _, tokens in self._drained)
        if not drained:
            return WINDOW_S
        elapsed = max(time.monotonic() - self._drained[0][0], 1.0)
        return min(max(excess * elapsed / drained, 1.0), LONGEST_S)

    def _forget(self) -> None:
        oldest = time.monotonic() - WINDOW_S
        while self._drained and self._drained[0][0] < oldest:
            self._drained.popleft()
