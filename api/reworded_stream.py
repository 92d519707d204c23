"""A stream whose errors get the words of a dialect, for errors that the backend raises after `generate`."""

import asyncio
from collections.abc import Callable, Iterator

from inference.backend import Sink, Stream
from inference.errors import ServerError
from inference.events import Event


class RewordedStream:
    """A Stream of the events of `stream`. `reword` gets each error and returns the one to pass on."""

    def __init__(self, stream: Stream, reword: Callable[[ServerError], ServerError]) -> None:
        self._stream = stream
        self._reword = reword

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        try:
            return next(self._stream)
        except ServerError as error:
            raise self._reword(error) from error

    def start(self, sink: Sink) -> None:
        def receive(arrived: list[Event] | ServerError) -> asyncio.Event | None:
            return sink(self._reword(arrived) if isinstance(arrived, ServerError) else arrived)

        self._stream.start(receive)

    def close(self) -> None:
        self._stream.close()
