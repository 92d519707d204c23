"""The one thread that computes: a model is loaded and served on it.

OpenMP keeps a thread team for each thread that ever computed; the teams of two such threads compete for the
cores.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class EngineThread:
    """Runs one function after another on its own daemon thread."""

    def __init__(self, name: str) -> None:
        self._queue: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def run(self, work: Callable[[], T]) -> T:
        """Run the function on the thread and wait; returns its result or raises its exception."""
        return self.submit(work).result()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run the function after all functions submitted before; returns at once."""
        future: Future[T] = Future()
        self._queue.put((work, future))
        return future

    def _run(self) -> None:
        while True:
            work, future = self._queue.get()
            try:
                future.set_result(work())
            except BaseException as error:  # the caller of result() gets it
                future.set_exception(error)
            del work, future  # keep nothing alive while the queue is empty
