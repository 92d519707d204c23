"""Searches the events of a stream for stop patterns on another thread, in the order of their arrival.

A slow pattern then delays the events of its own request, and not the event loop, which delivers those of all.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress

from inference.backend import Sink
from inference.errors import Internal, ServerError
from inference.events import Event

Arrived = list[Event] | ServerError

log = logging.getLogger(__name__)


class PatternThread:
    """A Sink: `process` runs in `executor`, and its results go to `sink`, both in the order of arrival.

    Everything but `process` runs on the event loop.
    """

    def __init__(self, process: Callable[[Arrived], Arrived], executor: Executor, sink: Sink) -> None:
        self.process = process
        self.executor = executor
        self.sink = sink
        self.is_searching = False
        self._waiting: list[Arrived] = []

    def __call__(self, arrived: Arrived) -> None:
        self._waiting.append(arrived)
        if not self.is_searching:
            self._search()

    def _search(self) -> None:
        batch, self._waiting = self._waiting, []
        self.is_searching = True
        loop = asyncio.get_running_loop()

        def return_to_loop(future: Future[list[Arrived]]) -> None:
            with suppress(RuntimeError):  # the loop is closed: the server has stopped
                loop.call_soon_threadsafe(self._deliver, future)

        self.executor.submit(self._process_all, batch).add_done_callback(return_to_loop)

    def _process_all(self, batch: list[Arrived]) -> list[Arrived]:
        try:
            return list(map(self.process, batch))
        except Exception:
            log.exception("event=stop_pattern_failed")
            return [Internal("the stop patterns could not be searched for")]

    def _deliver(self, future: Future[list[Arrived]]) -> None:
        self.is_searching = False
        for result in future.result():
            self.sink(result)
        if self._waiting:
            self._search()
