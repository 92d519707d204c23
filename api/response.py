"""Converts a stream of events to the body of an HTTP response: a stream of values, or one JSON value.

Knows events, the Writer protocol and framings. Does not know the backend or the HTTP server. A WSGI server
iterates a ResponseBody; server/asgi_bridge.py has its bytes pushed onto the event loop.
"""

import asyncio
import logging
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self
from urllib.parse import quote

from flask import Response, request

from api.body.json_body import MIMETYPE, encode
from api.errors import envelope, error_headers
from api.wsgi_environ import HANDOVER
from inference.backend import Sink, Stream
from inference.errors import Internal, ServerError
from inference.events import Event, Finished, Started, Token

MEMBER_HEADER = "X-Hearth-Member"  # which server answered for a model on other servers
PRINTABLE = string.punctuation  # in that header, with letters and digits

log = logging.getLogger(__name__)

View = Callable[[], Response]


class Writer(Protocol):
    """Converts the events of one request to its dialect's JSON.

    A value is a JSON-compatible object, a msgspec struct, or bytes that are already JSON.
    """

    def chunk(self, event: Event) -> list[Any]:
        """Record the event; returns the values to stream. An unstreamed response discards them."""
        ...

    def full_response(self) -> Any:
        """The body of an unstreamed response; called after the last event."""
        ...

    def error_before_start(self, error: ServerError) -> tuple[int, Any]:
        """The HTTP status and the body of an error before the first byte."""
        ...

    def error_in_stream(self, error: ServerError) -> list[Any]:
        """The values that report an error in a stream that has begun."""
        ...


@dataclass(frozen=True, slots=True)
class Framing:
    """How the values of a stream are encoded and separated.

    end      bytes after the last value, also after an error
    in_band  send an error before the first value inside the stream too, with status 200
    """

    mimetype: str
    encode: Callable[[Any], bytes]
    end: bytes = b""
    in_band: bool = False


NDJSON = Framing("application/x-ndjson", lambda value: encode(value) + b"\n")
SSE = Framing("text/event-stream", lambda value: b"data: " + encode(value) + b"\n\n")


class ClosedStream:
    """The stream of a closed response, which no longer refers to its own one.

    That one refers to the response, as to its sink: events and texts would stay in memory until the garbage
    collector finds the cycle.
    """

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        raise StopIteration

    def start(self, sink: Sink) -> None: ...

    def close(self) -> None: ...


CLOSED_STREAM = ClosedStream()


class StreamEndedEarly(Internal):
    """The backend's stream ended before the last Finished event."""


def respond(
    stream: Stream,
    writer: Writer,
    framing: Framing | None,
    num_answers: int = 1,
    headers: Callable[[], Mapping[str, str]] = dict,
) -> Response:
    """The HTTP response for `stream`. If `framing` is None, the body is one JSON value.

    num_answers  number of Finished events to expect: the request's n
    headers      returns further headers; called once, when the status becomes 200: with the first bytes of a
                 streamed response, at the end of an unstreamed one

    An error before the first event sets the status that the writer returns, unless framing.in_band is true.
    Closing the response cancels the generation.
    """
    body = ResponseBody(stream, writer, framing, num_answers, headers)
    if HANDOVER not in request.environ:
        body.prime()
    response = Response(body, body.status or 200, content_type=body.mimetype, direct_passthrough=True)
    response.headers.update(body.headers)
    if framing:
        response.headers.update({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
    return response


class ResponseBody:
    """The body of one response. Either iterate it from one thread, or call `start` to have its bytes pushed.

    status        HTTP status; 0 until it is known
    num_tokens    tokens generated so far
    has_ended     the last bytes were returned or pushed
    cancelled     closed before the last bytes
    error_status  status of the error that ended the response, even if another status was sent; 0: no error
    is_poll       it waits for something that goes on without it: it does not delay a shutdown
    """

    def __init__(
        self,
        stream: Stream,
        writer: Writer,
        framing: Framing | None,
        num_answers: int = 1,
        headers: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self.stream: Stream = stream
        self.writer = writer
        self.framing = framing
        self.num_answers = num_answers
        self.num_finished = 0
        self.num_tokens = 0
        self.status = 0
        self.mimetype = framing.mimetype if framing else MIMETYPE
        self.headers: dict[str, str] = {}
        self._make_headers = headers
        self.has_ended = False
        self.cancelled = False
        self.error_status = 0
        self.is_poll = False
        self._primed_bytes: bytes | None = None
        self._end_callback: Callable[[], None] = lambda: None
        self._close_callbacks: list[Callable[[], None]] = []

    def start(self, push: Callable[[bytes], asyncio.Event | None]) -> None:
        """Call `push` with the bytes of each engine step (possibly none) on the backend's delivery thread.

        It returns what a Sink returns.
        """
        self.stream.start(lambda arrived: None if self.has_ended else push(self.feed(arrived)))

    def feed(self, arrived: list[Event] | ServerError) -> bytes:
        """Convert events or an error to bytes. An exception in the writer ends the response with an error."""
        if isinstance(arrived, ServerError):
            return self._fail(arrived)
        try:
            values: list[Any] = []
            for event in arrived:
                if isinstance(event, Started) and event.member:
                    self.headers[MEMBER_HEADER] = quote(event.member, safe=PRINTABLE)
                values += self.writer.chunk(event)
                self.num_tokens += isinstance(event, Token)
                self.num_finished += isinstance(event, Finished)
            has_ended = self.num_finished >= self.num_answers
            if self.framing:
                data = b"".join(map(self.framing.encode, values)) + (self.framing.end if has_ended else b"")
            else:
                data = encode(self.writer.full_response()) if has_ended else b""
            self.has_ended = has_ended
            if not self.status and (has_ended or self.framing):
                self._mark_started()
            if has_ended:
                self._end_callback()
            return data
        except ServerError as error:
            return self._fail(error)
        except Exception:
            log.exception("writer failed: %s", type(self.writer).__name__)
            return self._fail(Internal("the response could not be encoded"))

    def _mark_started(self) -> None:
        self.headers.update(self._make_headers())
        self.status = 200

    def _fail(self, error: ServerError) -> bytes:
        sent_status, self.has_ended, self.error_status = self.status, True, error.status
        self._end_callback()
        try:
            return self._encode_error(error)
        except Exception:
            log.exception("writer failed to render an error: %s", type(self.writer).__name__)
            self.status, self.mimetype = sent_status or 500, MIMETYPE
            return b"" if sent_status else encode(envelope(error.message, error.status))

    def _encode_error(self, error: ServerError) -> bytes:
        if self.framing and (self.status or self.framing.in_band):
            if not self.status:
                self._mark_started()
            return b"".join(map(self.framing.encode, self.writer.error_in_stream(error))) + self.framing.end
        self.status, body = self.writer.error_before_start(error)
        self.mimetype, self.headers = MIMETYPE, error_headers(error)
        return encode(body)

    def prime(self) -> None:
        """Pull events until the status is known: one if streamed, else all."""
        self._primed_bytes = b""
        while not self.status:
            self._primed_bytes += self._pull()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        if self._primed_bytes is not None:
            data, self._primed_bytes = self._primed_bytes, None
            return data
        if self.has_ended:
            self.close()
            raise StopIteration
        return self._pull()

    def _pull(self) -> bytes:
        try:
            return self.feed([next(self.stream)])
        except StopIteration:
            return self.feed(StreamEndedEarly("the stream ended before its last answer"))
        except ServerError as error:
            return self.feed(error)

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call `callback` before the last bytes are returned or pushed, and at `close`; now if they were."""
        self._end_callback = callback
        if self.has_ended:
            callback()

    def on_close(self, callback: Callable[[], None]) -> None:
        self._close_callbacks.append(callback)

    def close(self) -> None:
        """Cancel the generation if it still runs, then call the on_close callbacks. Idempotent."""
        self.stream.close()
        self.stream = CLOSED_STREAM
        self.cancelled |= not self.has_ended
        self.has_ended = True
        self._end_callback()
        callbacks, self._close_callbacks = self._close_callbacks, []
        for callback in callbacks:
            callback()
