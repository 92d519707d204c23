"""A promise: the result of a request, which the client fetches later, perhaps several times."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

FETCHED_S = 600.0  # a result is kept for so long once it was fetched
UNFETCHED_S = 24 * 3600.0

ResultT = TypeVar("ResultT")


class Promise(Generic[ResultT]):
    """Resolved once; read from any thread."""

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self._future: Future[ResultT] = Future()
        self._expires = float("inf")

    def result(self) -> ResultT | None:
        """None: it is not there yet."""
        if not self._future.done():
            return None
        self._expires = min(self._expires, time.monotonic() + FETCHED_S)
        return self._future.result()

    def on_done(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the result is there: now, or later on another thread."""
        self._future.add_done_callback(lambda future: callback())

    def resolve(self, result: ResultT) -> None:
        self._expires = time.monotonic() + UNFETCHED_S
        self._future.set_result(result)

    @property
    def is_resolved(self) -> bool:
        return self._future.done()

    @property
    def is_expired(self) -> bool:
        return time.monotonic() > self._expires
