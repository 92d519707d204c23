"""A stream whose answer is saved before its last events are passed on: what a client received is stored.

Knows streams and futures. Does not know what is saved.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial

from inference.backend import Sink, Stream
from inference.errors import ServerError
from inference.events import Event, Finished

SAVE_TIMEOUT_S = 5.0

log = logging.getLogger(__name__)

Save = Callable[[list[Event]], Future[None]]


class RecordedStream:
    """A Stream over another one.

    num_answers     Finished events to expect
    save            called with all events of the stream, once, when the last one has arrived
    on_failure      called before the last events are passed on, if the answer could not be saved
    save_timeout_s  an answer does not wait longer for the disk
    """

    def __init__(
        self,
        stream: Stream,
        num_answers: int,
        save: Save,
        on_failure: Callable[[], None],
        save_timeout_s: float = SAVE_TIMEOUT_S,
    ) -> None:
        self._stream = stream
        self._num_unfinished = num_answers
        self._save = save
        self._on_failure = on_failure
        self._save_timeout_s = save_timeout_s
        self._events: list[Event] = []
        self._task: asyncio.Task[None] | None = None  # the loop has only a weak reference to it

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        event = next(self._stream)
        if self._record([event]):
            try:
                self._save(self._events).result(self._save_timeout_s)
            except Exception as error:
                self._fail(error)
        return event

    def start(self, sink: Sink) -> None:
        self._stream.start(partial(self._receive, asyncio.get_running_loop(), sink))

    def close(self) -> None:
        self._stream.close()

    def _receive(
        self, loop: asyncio.AbstractEventLoop, sink: Sink, arrived: list[Event] | ServerError
    ) -> asyncio.Event | None:
        if isinstance(arrived, ServerError) or not self._record(arrived):
            return sink(arrived)
        self._task = loop.create_task(self._save_and_pass_on(sink, arrived))
        return None

    def _record(self, events: list[Event]) -> bool:
        """Returns whether the last answer has ended."""
        self._events += events
        self._num_unfinished -= sum(isinstance(event, Finished) for event in events)
        return self._num_unfinished <= 0

    async def _save_and_pass_on(self, sink: Sink, events: list[Event]) -> None:
        try:
            async with asyncio.timeout(self._save_timeout_s):
                await asyncio.wrap_future(self._save(self._events))
        except Exception as error:
            self._fail(error)
        sink(events)

    def _fail(self, error: Exception) -> None:
        """An answer does not depend on the store: the client gets it in any case."""
        if not isinstance(error, ServerError):  # the store has logged a ServerError
            log.error("the answer was not stored", exc_info=error)
        self._on_failure()
