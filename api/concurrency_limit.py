"""Limits the number of concurrent HTTP requests: one more is refused with Overloaded and a Retry-After.

Knows the Backend protocol. An HTTP request with several prompts counts once.
"""

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence

from flask import g, has_app_context

from inference.backend import Backend, Sink, Stream
from inference.errors import Overloaded, ServerError
from inference.types import Event, Finished, GenerationRequest

RETRY_AFTER_S = 1.0


class Permits:
    def __init__(self, limit: int) -> None:
        self._semaphore = threading.BoundedSemaphore(limit)

    def acquire(self) -> "Permit":
        """The permit of the current HTTP request, with `num_streams` one higher. Raises Overloaded."""
        permit = g.get("permit") if has_app_context() else None
        if permit is None or not permit.num_streams:
            permit = self._create_permit()
        permit.num_streams += 1
        return permit

    def _create_permit(self) -> "Permit":
        if not self._semaphore.acquire(blocking=False):
            raise Overloaded(RETRY_AFTER_S)
        permit = Permit(self._semaphore.release)
        if has_app_context():
            g.permit = permit
        return permit


class Permit:
    """The permit of one HTTP request, returned when the last of its `num_streams` streams ends."""

    def __init__(self, return_permit: Callable[[], None]) -> None:
        self.num_streams = 0
        self._return_permit = return_permit

    def release(self) -> None:
        self.num_streams -= 1
        if not self.num_streams:
            self._return_permit()


class LimitedBackend:
    """A Backend that runs `generate` and `embed` for at most `limit` HTTP requests at a time.

    All other methods are those of `backend`.
    """

    def __init__(self, backend: Backend, limit: int) -> None:
        self._permits = Permits(limit)
        self._generate = backend.generate
        self._embed = backend.embed
        self.info = backend.info
        self.unavailable_reason = backend.unavailable_reason
        self.tokenize = backend.tokenize
        self.detokenize = backend.detokenize
        self.load = backend.load
        self.set_delivery = backend.set_delivery
        self.close = backend.close

    def generate(self, request: GenerationRequest) -> Stream:
        return self._with_permit(lambda: self._generate(request), request.n)

    def embed(self, inputs: Sequence[str | Sequence[int]]) -> Stream:
        return self._with_permit(lambda: self._embed(inputs))

    def _with_permit(self, start_stream: Callable[[], Stream], num_answers: int = 1) -> Stream:
        permit = self._permits.acquire()
        try:
            return PermittedStream(start_stream(), num_answers, permit)
        except BaseException:
            permit.release()
            raise


class PermittedStream:
    """A Stream that releases its permit at its last event, when closed, or when garbage collected.

    The permit is released before the last event is delivered: a client may send its next request at once.
    """

    def __init__(self, stream: Stream, num_answers: int, permit: Permit) -> None:
        self._stream = stream
        self._num_unfinished = num_answers
        self._release_permit = weakref.finalize(self, permit.release)  # a finalizer runs at most once
        self._release_permit.atexit = False

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        try:
            event = next(self._stream)
        except (StopIteration, ServerError):
            self._release_permit()
            raise
        self._count_finished([event])
        return event

    def start(self, sink: Sink) -> None:
        def receive(arrived: list[Event] | ServerError) -> None:
            if isinstance(arrived, ServerError):
                self._release_permit()
            else:
                self._count_finished(arrived)
            sink(arrived)

        self._stream.start(receive)

    def close(self) -> None:
        self._stream.close()
        self._release_permit()

    def _count_finished(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Finished):
                self._num_unfinished -= 1
                if not self._num_unfinished:
                    self._release_permit()
