"""A stream that marks the last token of the answer, because TGI sends the end in the same event.

For streams of one answer. When iterated, a token is delayed until the next event. When pushed, it is not: the
end of an answer is delivered together with its last token.
"""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

from inference.backend import Sink, Stream
from inference.errors import ServerError
from inference.events import Event, Finished, Token


@dataclass(frozen=True, slots=True, kw_only=True)
class LastToken(Token):
    """The last token of an answer. `end` is the Finished event that follows."""

    end: Finished


class LastTokenStream:
    """A Stream of the events of `stream`, with a LastToken before the Finished."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._events = mark_last_token(stream)

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        return next(self._events)

    def start(self, sink: Sink) -> None:
        def receive(arrived: list[Event] | ServerError) -> asyncio.Event | None:
            if isinstance(arrived, list) and arrived and isinstance(arrived[-1], Finished):
                arrived = list(mark_last_token(arrived))
            return sink(arrived)

        self._stream.start(receive)

    def close(self) -> None:
        self._stream.close()


def mark_last_token(events: Iterable[Event]) -> Iterator[Event]:
    """The events, with the last token replaced by a LastToken. A delayed token is emitted before an error."""
    pending: Token | None = None
    try:
        for event in events:
            if isinstance(event, Finished):
                yield to_last_token(pending, event)
                pending = None
            if pending:
                yield pending
            pending = event if isinstance(event, Token) else None
            if pending is None:
                yield event
    except ServerError:
        if pending:
            yield pending
        raise
    if pending:
        yield pending


def to_last_token(token: Token | None, end: Finished) -> LastToken:
    """Combine token and end. Without a token, e.g. at a deadline, the result is an empty special token."""
    token = token or Token(end.index, 0, "", logprob=0.0, is_special=True)
    return LastToken(**{each.name: getattr(token, each.name) for each in fields(token)}, end=end)
