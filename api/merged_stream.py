"""Merges the streams of several requests into one, for routes that accept several prompts.

Knows streams and the index of an event, not its content.
"""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import Protocol, Self, TypeVar

from inference.backend import Sink, Stream
from inference.errors import ServerError
from inference.events import Event


class AnswerRequest(Protocol):
    @property
    def n(self) -> int:
        """How many answers it is for."""
        ...

    def in_group(self, group: int) -> Self:
        """The request with this group, see GenerationRequest."""
        ...


groups = count(-random.getrandbits(48), -1)  # of another server that sends requests to the same one: others
Request = TypeVar("Request", bound=AnswerRequest)


def submit_all(submit: Callable[[Request], Stream], requests: Sequence[Request]) -> Stream:
    """Submit `requests`: at least one, all with the same n. Returns the stream of all their events.

    If one is refused, cancels those already submitted and raises its error.
    """
    if len(requests) == 1:
        return submit(requests[0])
    streams: list[Stream] = []
    group = next(groups)
    try:
        for request in requests:
            streams.append(submit(request.in_group(group)))
    except ServerError:
        MergedStream(streams).close()
        raise
    return MergedStream(streams, requests[0].n)


class MergedStream:
    """A Stream of the events of all `streams`. Answer k of stream i gets the index i * n + k.

    An error in one stream ends all of them. Iteration reads one stream after the other.
    """

    def __init__(self, streams: list[Stream], n: int = 1) -> None:
        """`n` is the number of answers of each stream."""
        self.streams = streams
        self.n = n
        self.closed = False
        self._events = chain.from_iterable(self._renumber(i, stream) for i, stream in enumerate(streams))

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        return next(self._events)

    def start(self, sink: Sink) -> None:
        for i, stream in enumerate(self.streams):
            stream.start(self._sink_for(i, sink))

    def close(self) -> None:
        self.closed = True
        for stream in self.streams:
            stream.close()

    def _sink_for(self, i: int, sink: Sink) -> Sink:
        def receive(arrived: list[Event] | ServerError) -> asyncio.Event | None:
            if self.closed:
                return None
            if isinstance(arrived, ServerError):
                self.close()
                return sink(arrived)
            return sink(list(self._renumber(i, arrived)))

        return receive

    def _renumber(self, i: int, events: Stream | list[Event]) -> Iterator[Event]:
        return (replace(event, index=i * self.n + event.index) for event in events)
