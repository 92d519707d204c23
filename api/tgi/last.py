"""A stream in which the last token of the answer is known as it comes: TGI tells the end with it.

For streams of one answer. Pulled, a token waits for the event behind it; pushed, for nothing: an answer's end
comes in the same step as its last token.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

from inference.backend import Sink, Stream
from inference.errors import ServerError
from inference.types import Event, Finished, Token


@dataclass(frozen=True, slots=True, kw_only=True)
class LastToken(Token):
    """The token that `end` comes behind."""

    end: Finished


class Marked:
    """A Stream of `stream`'s events, with a LastToken in front of the Finished."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._events = marked(stream)

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        return next(self._events)

    def start(self, sink: Sink) -> None:
        def receive(arrived: list[Event] | ServerError) -> None:
            sink(arrived if isinstance(arrived, ServerError) else list(marked(arrived)))

        self._stream.start(receive)

    def close(self) -> None:
        self._stream.close()


def marked(events: Iterable[Event]) -> Iterator[Event]:
    """The events; an error comes behind what came before it."""
    held: Token | None = None
    try:
        for event in events:
            if isinstance(event, Finished):
                yield last(held, event)
                held = None
            if held:
                yield held
            held = event if isinstance(event, Token) else None
            if held is None:
                yield event
    except ServerError:
        if held:
            yield held
        raise
    if held:
        yield held


def last(token: Token | None, end: Finished) -> LastToken:
    """An end by itself, at a deadline for instance, gets a token that says nothing."""
    token = token or Token(end.index, 0, "", logprob=0.0, special=True)
    return LastToken(**{each.name: getattr(token, each.name) for each in fields(token)}, end=end)
