"""The ends of the requests of one sampling client, in order: one poll waits for all of them."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

KEPT_S = 24 * 3600.0
MAX_COMPLETIONS = 100_000  # of one client: those that fetch each result by itself acknowledge none

State = Literal["finished", "failed"]


class SampleCompletion(NamedTuple):
    """The end of one request.

    number: ascending, also over restarts of the server; the client returns the last one as its cursor.
    """

    number: int
    request_id: str
    state: State


class Completions:
    """Completions that the client has not acknowledged. Every method may be called from any thread.

    lost: ids of requests that died with an earlier server
    """

    def __init__(self, lost: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self._completions: deque[SampleCompletion] = deque(maxlen=MAX_COMPLETIONS)
        self._callbacks: list[Callable[[], None]] = []
        self._last_number = 0
        self._used = time.monotonic()
        for request_id in lost:
            self.add(request_id, "failed")

    def add(self, request_id: str, state: State) -> None:
        with self._lock:
            self._last_number = max(self._last_number + 1, time.time_ns() // 1000)
            self._completions.append(SampleCompletion(self._last_number, request_id, state))
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def acknowledge(self, cursor: int) -> None:
        """Forget the completions up to this number."""
        with self._lock:
            self._used = time.monotonic()
            while self._completions and self._completions[0].number <= cursor:
                self._completions.popleft()

    def all(self) -> list[SampleCompletion]:
        with self._lock:
            return list(self._completions)

    def on_added(self, callback: Callable[[], None]) -> None:
        """Call `callback` once there is a completion: now, or later on another thread."""
        with self._lock:
            if not self._completions:
                self._callbacks.append(callback)
                return
        callback()

    @property
    def is_idle(self) -> bool:
        """Whether no client has polled for long."""
        return time.monotonic() - self._used > KEPT_S


@dataclass(frozen=True, slots=True)
class NextCompletions:
    """What one poll waits for. cursor: of the client's last reply."""

    completions: Completions
    cursor: int

    def on_done(self, callback: Callable[[], None]) -> None:
        self.completions.on_added(callback)

    def outcome(self) -> dict[str, Any]:
        completions = self.completions.all()
        return {
            "completions": [{"state": each.state, "request_id": each.request_id} for each in completions],
            "cursor": max([self.cursor, *(each.number for each in completions)]),
        }
