"""Several requests as one stream, for routes that take a batch.

Knows streams and the index of their events, nothing of what is in them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from inference.backend import Sink, Stream
from inference.errors import ServerError
from inference.types import Event, GenerationRequest


def together(submit: Callable[[GenerationRequest], Stream], asked: Sequence[GenerationRequest]) -> "Joined":
    """All of the requests, submitted as one stream; none is left running where one is refused.

    They are at least one, and have the same n.
    """
    streams: list[Stream] = []
    try:
        for each in asked:
            streams.append(submit(each))
    except ServerError:
        Joined(streams).close()
        raise
    return Joined(streams, asked[0].n)


class Joined:
    """A Stream of all `streams`; answer k of the i-th has index i * answers + k. One error ends them all."""

    def __init__(self, streams: list[Stream], answers: int = 1) -> None:
        """`answers`: how many each stream brings, its request's n."""
        self.streams = streams
        self.answers = answers
        self.closed = False
        self._events = chain.from_iterable(self._renumbered(i, stream) for i, stream in enumerate(streams))

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        return next(self._events)

    def start(self, sink: Sink) -> None:
        for i, stream in enumerate(self.streams):
            stream.start(self._sink(i, sink))

    def close(self) -> None:
        self.closed = True
        for stream in self.streams:
            stream.close()

    def _sink(self, i: int, sink: Sink) -> Sink:
        def receive(arrived: list[Event] | ServerError) -> None:
            if self.closed:
                return
            if isinstance(arrived, ServerError):
                self.close()
                sink(arrived)
            else:
                sink(list(self._renumbered(i, arrived)))

        return receive

    def _renumbered(self, i: int, events: Stream | list[Event]) -> Iterator[Event]:
        return (replace(event, index=i * self.answers + event.index) for event in events)
