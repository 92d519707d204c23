"""The stream of one request: the engine's records wait here until their reader turns them into events.

Pulled, a record is read in the consumer's thread; pushed, where records are delivered. Knows no text.
"""

import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue

from inference.backend import Sink
from inference.engine.sequence import Record
from inference.errors import Internal, ServerError
from inference.local.answer import Answer
from inference.types import Event

log = logging.getLogger(__name__)


class LocalStream:
    """A Stream over a Channel. The engine holds the channel alone, so a stream that nobody reads any more is
    collected, and thereby cancelled: whoever starts one keeps it as long as it wants events."""

    def __init__(self, channel: "Channel") -> None:
        self._channel = channel
        self._events: deque[Event] = deque()
        self._finalizer = weakref.finalize(self, channel.close)
        self._finalizer.atexit = False

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        while not self._events:
            self._events.extend(self._channel.take())
        return self._events.popleft()

    def start(self, sink: Sink) -> None:
        self._channel.start(sink)

    def close(self) -> None:
        self._finalizer()


class Channel:
    """Records of all answers to one request, in the order they came.

    ids  of the answers' sequences in the engine, set once they are submitted and before anything is read
    """

    def __init__(self, answers: Sequence[Answer], cancel: Callable[[Sequence[int]], None]) -> None:
        self.answers = answers
        self.ids: Sequence[int] = ()
        self._cancel = cancel
        self._records: SimpleQueue[tuple[int, Record] | None] = SimpleQueue()
        self._sink: Sink | None = None
        self._turn = threading.Lock()
        self._over = False

    def outlets(self) -> list["Outlet"]:
        return [Outlet(self, index) for index in range(len(self.answers))]

    def put(self, index: int, record: Record) -> None:
        self._records.put((index, record))
        if self._sink is not None:
            self._hand_out(self._sink)

    def take(self) -> list[Event]:
        """The next record's events; blocks until there is one. Raises StopIteration behind the last."""
        if self._over or (arrived := self._records.get()) is None:
            raise StopIteration
        return self._events(*arrived)

    def start(self, sink: Sink) -> None:
        self._sink = sink
        self._hand_out(sink)

    def close(self) -> None:
        if not self._over:
            self._give_up()
            self._records.put(None)

    def _hand_out(self, sink: Sink) -> None:
        """Give what has come to the sink, in order: one thread does, and another leaves its record to it."""
        while not self._records.empty() and self._turn.acquire(blocking=False):
            try:
                while not self._records.empty():
                    self._give(sink, self._records.get())
            finally:
                self._turn.release()

    def _give(self, sink: Sink, arrived: tuple[int, Record] | None) -> None:
        if self._over or arrived is None:
            return
        try:
            events = self._events(*arrived)
        except ServerError as error:
            sink(error)
        except Exception:  # of one request; the thread delivers everybody's
            log.exception("answer=%d cannot be told", arrived[0])
            self._give_up()
            sink(Internal("the answer could not be turned into text"))
        else:
            if events:
                sink(events)

    def _events(self, index: int, record: Record) -> list[Event]:
        answer = self.answers[index]
        if answer.finished:
            return []
        if record.error:
            answer.give_up("error")
            self._give_up()
            raise record.error
        events = answer.read(record)
        if answer.finished and not record.reason:
            self._cancel([self.ids[index]])
        self._over = all(answer.finished for answer in self.answers)
        return events

    def _give_up(self) -> None:
        self._over = True
        unfinished = [answer for answer in self.answers if not answer.finished]
        if unfinished:
            self._cancel([self.ids[answer.index] for answer in unfinished])
        for answer in unfinished:
            answer.give_up("cancelled")


class Outlet:
    """Where the engine puts one answer's records."""

    def __init__(self, channel: Channel, index: int) -> None:
        self._channel = channel
        self._index = index

    def put(self, record: Record) -> None:
        self._channel.put(self._index, record)
