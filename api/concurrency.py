"""How many requests are answered at once: one more is told to come back later.

Knows the Backend's interface, and that an HTTP request is one request, however many prompts are in it.
"""

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence

from flask import g, has_app_context

from inference.backend import Backend, Sink, Stream
from inference.errors import Overloaded, ServerError
from inference.types import Event, Finished, GenerationRequest

RETRY_AFTER_S = 1.0


class Seats:
    def __init__(self, limit: int) -> None:
        self._free = threading.BoundedSemaphore(limit)

    def taken(self) -> "Seat":
        """The seat of this HTTP request, with one more stream on it. Raises Overloaded."""
        seat = g.get("seat") if has_app_context() else None
        if seat is None or not seat.streams:
            seat = self._new()
        seat.streams += 1
        return seat

    def _new(self) -> "Seat":
        if not self._free.acquire(blocking=False):
            raise Overloaded(RETRY_AFTER_S)
        seat = Seat(self._free.release)
        if has_app_context():
            g.seat = seat
        return seat


class Seat:
    """`streams` that are not over yet; with the last the seat is free."""

    def __init__(self, release: Callable[[], None]) -> None:
        self.streams = 0
        self._release = release

    def leave(self) -> None:
        self.streams -= 1
        if not self.streams:
            self._release()


class Admitted:
    """A Backend that answers no more than `limit` requests at once; all but answers is `backend`'s own."""

    def __init__(self, backend: Backend, limit: int) -> None:
        self._seats = Seats(limit)
        self._generate = backend.generate
        self._embed = backend.embed
        self.info = backend.info
        self.ready = backend.ready
        self.tokenize = backend.tokenize
        self.detokenize = backend.detokenize
        self.load = backend.load
        self.deliver_with = backend.deliver_with
        self.close = backend.close

    def generate(self, request: GenerationRequest) -> Stream:
        return self._seated(lambda: self._generate(request), request.n)

    def embed(self, inputs: Sequence[str | Sequence[int]]) -> Stream:
        return self._seated(lambda: self._embed(inputs))

    def _seated(self, begin: Callable[[], Stream], answers: int = 1) -> Stream:
        seat = self._seats.taken()
        try:
            return Seated(begin(), answers, seat)
        except BaseException:
            seat.leave()
            raise


class Seated:
    """A stream that leaves its seat when it is over: behind its last event, closed, or forgotten.

    It leaves before the last event is handed out, so that whoever asks again at once finds the seat free.
    """

    def __init__(self, stream: Stream, answers: int, seat: Seat) -> None:
        self._stream = stream
        self._unfinished = answers
        self._leave = weakref.finalize(self, seat.leave)  # does it once
        self._leave.atexit = False

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        try:
            event = next(self._stream)
        except (StopIteration, ServerError):
            self._leave()
            raise
        self._watch([event])
        return event

    def start(self, sink: Sink) -> None:
        def receive(arrived: list[Event] | ServerError) -> None:
            if isinstance(arrived, ServerError):
                self._leave()
            else:
                self._watch(arrived)
            sink(arrived)

        self._stream.start(receive)

    def close(self) -> None:
        self._stream.close()
        self._leave()

    def _watch(self, events: list[Event]) -> None:
        self._unfinished -= sum(isinstance(event, Finished) for event in events)
        if self._unfinished <= 0:
            self._leave()
