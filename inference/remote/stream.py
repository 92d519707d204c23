"""A Stream whose events a task on the server's event loop produces. It holds no thread."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from queue import SimpleQueue

from inference.backend import Sink
from inference.errors import Internal, ServerError, Unavailable
from inference.events import Event

Emit = Callable[[list[Event]], asyncio.Event | None]  # returns what a Sink returns
Produce = Callable[[Emit], Awaitable[None]]

log = logging.getLogger(__name__)


class RemoteStream:
    """The events that `produce` emits; a ServerError that it raises ends the stream.

    produce starts at once, so that the upstream works while the response is being prepared.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, produce: Produce) -> None:
        self._loop = loop
        self._produce = produce
        self._queue: SimpleQueue[list[Event] | ServerError | None] = SimpleQueue()
        self._iterated: deque[Event] = deque()
        self._sink: Sink | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        try:
            loop.call_soon_threadsafe(self._begin)
        except RuntimeError:
            raise Unavailable("the server is shutting down") from None

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        while not self._iterated:
            delivery = None if self._is_closed else self._queue.get()
            if delivery is None:
                self._is_closed = True
                raise StopIteration
            if isinstance(delivery, ServerError):
                self._is_closed = True
                raise delivery
            self._iterated.extend(delivery)
        return self._iterated.popleft()

    def start(self, sink: Sink) -> None:
        self._sink = sink
        while not self._queue.empty():
            self._deliver(self._queue.get())

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._queue.put(None)  # wakes a thread that iterates
        with suppress(RuntimeError):  # the loop is closed: nothing runs any more
            self._loop.call_soon_threadsafe(self._cancel)

    def _begin(self) -> None:
        if not self._is_closed:
            self._task = self._loop.create_task(self._run())

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            await self._produce(self._deliver)
        except ServerError as error:
            self._deliver(error)
        except Exception:  # the client would wait for ever
            log.exception("event=relay_failed")
            self._deliver(Internal("the answer could not be relayed"))
        self._deliver(None)

    def _deliver(self, delivery: list[Event] | ServerError | None) -> asyncio.Event | None:
        """Pass events or an error on; None ends an iteration. On the event loop."""
        if self._sink is None:
            self._queue.put(delivery)
        elif delivery is not None and not self._is_closed:
            return self._sink(delivery)
        return None
