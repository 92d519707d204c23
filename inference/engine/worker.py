"""The one thread that computes. What is loaded there is served there.

OpenMP keeps a team for each thread that ever computed; with two such threads the teams fight for the cores.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    """Does one thing after the other on a thread of its own, which ends with the process."""

    def __init__(self, name: str) -> None:
        self._todo: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def do(self, work: Callable[[], T]) -> T:
        """What the work returns, or raises. Waits for it."""
        return self.begin(work).result()

    def begin(self, work: Callable[[], T]) -> Future[T]:
        """Have the work done behind all that was begun before; returns at once."""
        future: Future[T] = Future()
        self._todo.put((work, future))
        return future

    def _work(self) -> None:
        while True:
            work, future = self._todo.get()
            try:
                future.set_result(work())
            except BaseException as raised:  # it is for whoever asked
                future.set_exception(raised)
            del work, future  # nothing is kept alive while there is nothing to do
