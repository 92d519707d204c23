"""uvicorn's HTTP/1.1 protocol with limits on the time and the size of a request's headers.

Knows connections and bytes, not routes. A refused request gets a JSON error and does not reach the app.
"""

import asyncio
import logging
import sys
import time
from collections import deque
from http import HTTPStatus
from itertools import chain
from typing import Any, NamedTuple

from httptools import HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from api.body.json_body import MIMETYPE, encode
from api.errors import envelope
from api.hooks.request_log import make_request_id
from api.server.joined_writes import JoinedWrites
from api.server.response_sender import Headers
from api.wsgi_environ import ABORT, RECEIVED

HEADER_TIMEOUT_S = 5.0  # from the connection, or a later request's first byte, to the end of the headers
MAX_HEADER_BYTES = 64 << 10
MAX_LENGTH_DIGITS = 20  # of 64 bits; the parser skips zeros in front, and Python reads no 5,000 digits
WRITE_STALL_S = 60.0  # a client that reads nothing for this long while the write buffer is full is dropped
LINGER_S = 1.0  # wait before closing a refused connection, so that the client receives the error

WEB_SOCKET_PATH = b"/responses"  # the end of each path that can be one
HTTP_VERSIONS = ("1.0", "1.1")


class Refusal(NamedTuple):
    status: int
    message: str


MALFORMED = Refusal(400, "the request is malformed: this server speaks HTTP/1.1")
WRONG_HOST = Refusal(400, "the request must have one Host header")
FRAGMENT = Refusal(400, "the request's path contains #: send it as %23")
SLOW_HEADERS = Refusal(408, f"the request's headers did not arrive within {HEADER_TIMEOUT_S:.0f} s")
LARGE_HEADERS = Refusal(431, f"the request's first line and headers exceed {MAX_HEADER_BYTES} bytes")
LARGE_FRAMING = Refusal(431, f"{MAX_HEADER_BYTES} bytes of chunk extensions or trailers are no body")
OTHER_HOST = Refusal(400, "the request's target and its Host header name different hosts")
LONG_LENGTH = Refusal(400, f"the Content-Length has more than {MAX_LENGTH_DIGITS} digits")
OTHER_CODING = Refusal(501, "the Transfer-Encoding must be chunked alone: send the body uncompressed")
WRONG_VERSION = Refusal(505, "this server speaks HTTP/1.1 and HTTP/1.0")

log = logging.getLogger("hearth.access")


class RefusedHeaders(Exception):
    """Raised in a parser callback: the parser stops, and uvicorn calls send_400_response."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class LimitedHttpProtocol(HttpToolsProtocol):
    """One connection.

    header_timer  limits the time for a request's headers to arrive; None otherwise
    stall_timer   limits the time for which the client does not read; None while writes are possible
    header_bytes  bytes received since the beginning of the request, or since the last bytes of its body
    has_headers   the request's headers are complete: what follows in the form of headers is trailers
    unparsed      received bytes that the parser has yet to read; the first are those that it is reading
    refused       the connection was refused: later bytes are dropped
    answered      the request that the app answers; `cycle` is the last one that has arrived
    """

    header_timer: asyncio.TimerHandle | None = None
    stall_timer: asyncio.TimerHandle | None = None
    header_bytes = 0
    has_headers = False
    refused = False
    answered: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(JoinedWrites(transport, self.loop))
        self.unparsed: deque[memoryview] = deque()
        self._start_header_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_header_timer()
        self.resume_writing()
        self._tell_answered()
        super().connection_lost(exc)

    def _tell_answered(self) -> None:
        """Tell the app that the client has left: uvicorn tells `cycle`, which may wait behind `answered`."""
        if self.answered is not None and not self.answered.response_complete:
            self.answered.disconnected = True
            self.answered.message_event.set()

    def _abort(self) -> None:
        """Close the connection at once; unsent bytes are dropped, and so is what the app still sends."""
        self._tell_answered()
        self.transport.abort()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self.answered = cycle
        super()._start_asgi_task(cycle, app)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.stall_timer = self.loop.call_later(WRITE_STALL_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.stall_timer is not None:
            self.stall_timer.cancel()
            self.stall_timer = None

    def data_received(self, data: bytes) -> None:
        self.unparsed.append(memoryview(data))
        while self.unparsed and not self.refused:
            self._parse(self.unparsed[0])
            self.unparsed.popleft()

    def _parse(self, data: memoryview) -> None:
        if self._idle() and self.header_timer is None:
            self._start_header_timer()
        self.header_bytes += len(data)
        super().data_received(data)  # type: ignore[arg-type]
        if self.header_bytes > MAX_HEADER_BYTES and not self.refused:
            if self.header_timer is not None:
                self._refuse(LARGE_HEADERS)
            elif self._is_reading_body():
                self._refuse(LARGE_FRAMING)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.has_headers = False
        self.scope["extensions"] = {ABORT: self._abort}  # type: ignore[dict-item]
        if self.header_timer is None:
            self._start_header_timer()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Trailers are dropped: no route reads any, and the request's headers have been checked."""
        if not self.has_headers:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self.header_bytes = 0
        super().on_body(body)

    def on_headers_complete(self) -> None:
        self.has_headers = True
        self._stop_header_timer()
        if refusal := self._refusal_of_headers():
            raise RefusedHeaders(refusal)
        self.scope["method"] = self.parser.get_method().decode("ascii")
        if not self.parser.should_upgrade():
            is_old = self.parser.get_http_version() == "1.0"
            self.expect_100_continue = self.expect_100_continue and not is_old  # RFC 9110, 10.1.1
            super().on_headers_complete()
            if is_old:
                end_with_connection(self.cycle)

    def _refusal_of_headers(self) -> Refusal | None:
        if len(self.url) + sum(map(len, chain.from_iterable(self.headers))) > MAX_HEADER_BYTES:
            return LARGE_HEADERS
        version = self.parser.get_http_version()
        if version not in HTTP_VERSIONS:
            return WRONG_VERSION
        if b"#" in self.url:
            return FRAGMENT
        if any(name == b"content-length" and len(value) > MAX_LENGTH_DIGITS for name, value in self.headers):
            return LONG_LENGTH
        if any(name == b"transfer-encoding" and value.lower() != b"chunked" for name, value in self.headers):
            return OTHER_CODING
        hosts = [value for name, value in self.headers if name == b"host"]
        if len(hosts) > 1 or (not hosts and version == "1.1"):
            return WRONG_HOST
        return OTHER_HOST if hosts and self._target_host() not in (b"", hosts[0].lower()) else None

    def _target_host(self) -> bytes:
        """The host and port of a target in absolute form, in lower case; empty: it is a path."""
        return b"" if self.url.startswith(b"/") else self.url.partition(b"//")[2].partition(b"/")[0].lower()

    def on_message_complete(self) -> None:
        self.scope["extensions"][RECEIVED] = time.perf_counter()  # type: ignore[assignment]
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def _should_upgrade(self) -> bool:
        """Whether the connection becomes a WebSocket."""
        path = self.url.partition(b"?")[0]
        is_request = self.parser.get_method() == b"GET" and self._idle() and path.endswith(WEB_SOCKET_PATH)
        return is_request and super()._should_upgrade()

    def _unsupported_upgrade_warning(self) -> None:
        """Parse the request again without its Upgrade header. uvicorn calls this when the parser stops there.

        Some clients offer HTTP/2 in every request, and the parser reads no body after an Upgrade header.
        """
        (end,) = sys.exception().args  # type: ignore[union-attr]
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        if method == b"CONNECT":
            self._refuse(MALFORMED)
        else:
            headers = [b"%s: %s" % header for header in without_upgrade(self.headers)]
            self.parser = HttpRequestParser(self)
            lines = [b"%s %s HTTP/%s" % (method, self.url, version), *headers, b"", b""]
            self.unparsed.insert(1, memoryview(b"\r\n".join(lines)))
            self.unparsed.insert(2, self.unparsed[0][end:])

    def send_400_response(self, msg: str) -> None:
        error = sys.exception()
        cause = error.__context__ if error else None
        self._refuse(cause.refusal if isinstance(cause, RefusedHeaders) else MALFORMED)

    def _idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _is_reading_body(self) -> bool:
        """Whether the body of the only unfinished request is arriving, and its response has not begun."""
        cycle = self.cycle
        return not self._idle() and cycle.more_body and not cycle.response_started and not self.pipeline

    def _start_header_timer(self) -> None:
        self.header_bytes = 0
        self.header_timer = self.loop.call_later(HEADER_TIMEOUT_S, self._header_timeout)

    def _stop_header_timer(self) -> None:
        if self.header_timer is not None:
            self.header_timer.cancel()
            self.header_timer = None

    def _header_timeout(self) -> None:
        if self.header_bytes:
            self._refuse(SLOW_HEADERS)
        else:
            self.transport.close()

    def _refuse(self, refusal: Refusal) -> None:
        self.refused = True
        self._stop_header_timer()
        self._unset_keepalive_if_required()
        if self._is_reading_body():
            self.cycle.disconnected = True  # the app stops reading, and its response is dropped
            self.cycle.message_event.set()
        elif not self._idle():  # an earlier response is being written on this connection
            self.transport.close()
            return
        self.transport.write(refusal_response(refusal))
        self.loop.call_later(LINGER_S, self.transport.close)


def end_with_connection(cycle: RequestResponseCycle) -> None:
    """Let a response without a length end where its connection ends: clients of HTTP/1.0 know no chunks.

    uvicorn sends chunks to every client; RFC 9112, 6.1 forbids it.
    """
    send, cycle.chunked_encoding = cycle.send, False

    async def send_unframed(message: Any) -> None:
        # uvicorn refuses a body of another length.
        cycle.expected_content_length = len(message.get("body", b""))
        await send(message)

    cycle.send = send_unframed  # type: ignore[method-assign]


def without_upgrade(headers: Headers) -> Headers:
    """`headers` without Upgrade, and without all words of Connection but "close"."""
    connection = b",".join(value for name, value in headers if name == b"connection").lower()
    is_last = b"close" in [token.strip() for token in connection.split(b",")]
    others = [header for header in headers if header[0] not in (b"upgrade", b"connection")]
    return [*others, (b"connection", b"close")] if is_last else others


def refusal_response(refusal: Refusal) -> bytes:
    """The bytes of an error response, which is logged under a new request id."""
    status, message = refusal
    request_id = make_request_id(None)
    log.info("request id=%s refused status=%d", request_id, status)
    body = encode(envelope(message, status))
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {MIMETYPE}\r\n"
        f"Content-Length: {len(body)}\r\nX-Request-Id: {request_id}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
