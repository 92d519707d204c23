"""The one thread that computes: models are loaded on it, and their engines take turns on it, a step each.

OpenMP keeps a thread team for each thread that ever computed; the teams of two such threads compete for the
cores. Knows engines by `take_turn` only.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

import torch

from inference.process.time_slice import shorten_time_slice

T = TypeVar("T")


class Stepped(Protocol):
    def take_turn(self) -> bool:
        """Do a step of the work; returns whether more is left. Never raises."""
        ...


class EngineThread:
    """Runs functions one after another on its own daemon thread, and engines while they have work."""

    def __init__(self, name: str) -> None:
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._engines: list[Stepped] = []
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def run(self, work: Callable[[], T]) -> T:
        """Run the function on the thread and wait; returns its result or raises its exception."""
        return self.submit(work).result()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run the function after all functions submitted before, between two turns; returns at once."""
        future: Future[T] = Future()
        self._queue.put(lambda: complete(future, work))
        return future

    def attach(self, engine: Stepped) -> None:
        """Give the engine its turns from now on, in the order of attachment."""
        self.submit(lambda: self._engines.append(engine))

    def detach(self, engine: Stepped) -> None:
        """End the engine's turns; on this thread only."""
        self._engines.remove(engine)

    def wake(self) -> None:
        """Give every engine a turn: one of them has got work. From any thread."""
        self._queue.put(None)

    def _run(self) -> None:
        shorten_time_slice(inherited=True)  # by the OpenMP team: a step waits for the last of its threads
        while True:
            self._run_queued(self._queue.get())
            with torch.inference_mode():
                while self._take_turns():
                    while not self._queue.empty():
                        self._run_queued(self._queue.get())

    def _run_queued(self, work: Callable[[], None] | None) -> None:
        if work is not None:
            with torch.inference_mode(mode=False):  # a model that is loaded here may be trained later
                work()

    def _take_turns(self) -> bool:
        has_work = False
        for engine in tuple(self._engines):
            has_work |= engine.take_turn()
        return has_work


def complete(future: Future[Any], work: Callable[[], Any]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # the caller of result() gets it
        future.set_exception(error)
