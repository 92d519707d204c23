"""From a stream's events to an answer's bytes, streamed or whole: the seam every dialect uses.

Knows events, a dialect's Writer and how values are framed; not which server carries the bytes, nor who made
the events. An Answer is pulled as a WSGI iterable, or started by a server that has an event loop: see
front/bridge.py.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

from flask import Response, request

from api.encode import MIMETYPE, encode
from api.environ import HANDOVER
from api.errors import envelope, extra_headers
from inference.backend import Stream
from inference.errors import Internal, ServerError
from inference.types import Event, Finished, Token

log = logging.getLogger(__name__)


class Writer(Protocol):
    """Folds one request's events into its dialect's JSON. `chunk` sees every event, of whole answers too.

    Values are what JSON can say, msgspec structs, or bytes: JSON encoded already.
    """

    def chunk(self, event: Event) -> list[Any]:
        """The values to send now; not used for whole answers."""
        ...

    def whole(self) -> Any:
        """The whole answer, after the last event."""
        ...

    def failed(self, error: ServerError) -> tuple[int, Any]:
        """Status and body of an error before the first byte."""
        ...

    def broken(self, error: ServerError) -> list[Any]:
        """The values that end a stream after its first byte."""
        ...


@dataclass(frozen=True, slots=True)
class Framing:
    """How a stream's values stand one after another; `end` follows the last, of broken streams too.

    in_band  an error before the first value is told in the stream as well, which has status 200 then
    """

    mimetype: str
    encode: Callable[[Any], bytes]
    end: bytes = b""
    in_band: bool = False


NDJSON = Framing("application/x-ndjson", lambda value: encode(value) + b"\n")
SSE = Framing("text/event-stream", lambda value: b"data: " + encode(value) + b"\n\n")


class Incomplete(Internal):
    """The events ended before the last Finished."""


def answer(
    stream: Stream,
    writer: Writer,
    framing: Framing | None,
    answers: int = 1,
    headers: Callable[[], Mapping[str, str]] = dict,
) -> Response:
    """The response that carries `stream`; framing None: one whole JSON answer.

    `answers` is the number of Finished events that end the stream: the request's n. An error before the first
    event has the writer's status, unless the framing has it in band. `headers` is asked once the status is
    known and no error: of a stream with its first bytes, of a whole answer at its end. Closing the response
    cancels what is still being generated.
    """
    body = Answer(stream, writer, framing, answers, headers)
    if HANDOVER not in request.environ:
        body.open()
    response = Response(body, body.status or 200, content_type=body.mimetype, direct_passthrough=True)
    response.headers.update(body.headers)
    if framing:
        response.headers.update({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
    return response


class Answer:
    """One answer on its way out: iterate it from one thread, or `start` it and have its bytes pushed.

    status     0 until the first bytes decide it
    tokens     generated so far
    ended      nothing more will come
    cancelled  closed before it had ended
    failed     the status of the error it ended with, told with it or too late for that; 0: none
    """

    def __init__(
        self,
        stream: Stream,
        writer: Writer,
        framing: Framing | None,
        answers: int = 1,
        headers: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self.stream = stream
        self.writer = writer
        self.framing = framing
        self.answers = answers
        self.finished = 0
        self.tokens = 0
        self.status = 0
        self.mimetype = framing.mimetype if framing else MIMETYPE
        self.headers: dict[str, str] = {}
        self._own_headers = headers
        self.ended = False
        self.cancelled = False
        self.failed = 0
        self._first: bytes | None = None
        self._at_close: list[Callable[[], None]] = []

    # Pushed ----------------------------------------------------------------------------------------------

    def start(self, push: Callable[[bytes], None]) -> None:
        """Have `push` called with the bytes of each step, possibly empty, on the thread that delivers."""
        self.stream.start(lambda arrived: None if self.ended else push(self.feed(arrived)))

    def feed(self, arrived: list[Event] | ServerError) -> bytes:
        """Fold what arrived; returns the bytes to send now. Never raises."""
        try:
            return self._broken(arrived) if isinstance(arrived, ServerError) else self._folded(arrived)
        except ServerError as error:
            return self._broken(error)
        except Exception:
            log.exception("a writer failed: %s", type(self.writer).__name__)
            return self._broken(Internal("the answer could not be written"))

    def _folded(self, events: list[Event]) -> bytes:
        values: list[Any] = []
        for event in events:
            values += self.writer.chunk(event)
            self.tokens += isinstance(event, Token)
            self.finished += isinstance(event, Finished)
        ended = self.finished >= self.answers
        if self.framing:
            data = b"".join(map(self.framing.encode, values)) + (self.framing.end if ended else b"")
        else:
            data = encode(self.writer.whole()) if ended else b""
        self.ended = ended
        if ended or self.framing:
            self._begin()
        return data

    def _begin(self) -> None:
        if not self.status:
            self.headers.update(self._own_headers())
            self.status = 200

    def _broken(self, error: ServerError) -> bytes:
        begun, self.ended, self.failed = self.status, True, error.status
        try:
            return self._told(error)
        except Exception:
            log.exception("a writer failed at an error: %s", type(self.writer).__name__)
            self.status, self.mimetype = begun or 500, MIMETYPE
            return b"" if begun else encode(envelope(error.message))

    def _told(self, error: ServerError) -> bytes:
        if self.framing and (self.status or self.framing.in_band):
            self._begin()
            return b"".join(map(self.framing.encode, self.writer.broken(error))) + self.framing.end
        self.status, body = self.writer.failed(error)
        self.mimetype, self.headers = MIMETYPE, extra_headers(error)
        return encode(body)

    # Pulled ----------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Pull until the status is known: the first event of a stream, all of a whole answer."""
        self._first = b""
        while not self.status:
            self._first += self._pulled()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        if self._first is not None:
            data, self._first = self._first, None
            return data
        if self.ended:
            self.close()
            raise StopIteration
        return self._pulled()

    def _pulled(self) -> bytes:
        try:
            return self.feed([next(self.stream)])
        except StopIteration:
            return self.feed(Incomplete("the stream ended before its last answer"))
        except ServerError as error:
            return self.feed(error)

    # Either way ------------------------------------------------------------------------------------------

    def at_close(self, call: Callable[[], None]) -> None:
        self._at_close.append(call)

    def close(self) -> None:
        """Cancel what is left, then call what waits for the end. Idempotent."""
        self.stream.close()
        self.cancelled |= not self.ended
        self.ended = True
        calls, self._at_close = self._at_close, []
        for call in calls:
            call()
