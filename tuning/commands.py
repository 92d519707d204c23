"""Functions that other threads send to the one thread that owns a state, and their results."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from inference.errors import Unavailable

SHUTTING_DOWN = "the server is shutting down"

Result = TypeVar("Result")


class Commands:
    """The functions that wait for the owner's thread.

    is_closed: set once by `close`; the owner ends after the commands that have arrived.
    """

    def __init__(self) -> None:
        self._waiting: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()  # after the last call that was accepted, the owner is asked to end
        self.is_closed = False

    def call(self, function: Callable[..., Result], *args: Any) -> Result:
        """Run a function on the owner's thread. Raises what it raises, or Unavailable."""
        future: Future[Result] = Future()

        def command() -> None:
            try:
                future.set_result(function(*args))
            except BaseException as error:
                future.set_exception(error)

        with self._lock:
            if self.is_closed:
                raise Unavailable(SHUTTING_DOWN)
            self._waiting.put(command)
        return future.result()

    def send(self, command: Callable[[], None]) -> None:
        """Have a command run, without waiting for it."""
        self._waiting.put(command)

    def wake(self) -> None:
        """End the owner's wait."""
        self._waiting.put(lambda: None)

    def close(self) -> None:
        """Refuse later calls, and wake the owner."""
        with self._lock:
            self.is_closed = True
        self.wake()

    def run(self, timeout_s: float | None = 0.0) -> None:
        """On the owner's thread: run what has arrived; wait for it up to `timeout_s`, None: no limit."""
        try:
            self._waiting.get(timeout=timeout_s)()
        except Empty:
            return
        for _ in range(self._waiting.qsize()):  # not what arrives meanwhile: the owner has other work, too
            self._waiting.get()()
