"""uvicorn's HTTP/1.1 protocol with limits on the time and the size of a request's headers.

Knows connections and bytes, not routes. A refused request gets a JSON error and does not reach the app.
"""

import asyncio
import logging
import sys
from http import HTTPStatus
from itertools import chain

from httptools import HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.errors import envelope
from api.json_body import MIMETYPE, encode
from api.request_log import make_request_id
from api.wsgi_environ import ABORT

HEADER_TIMEOUT_S = 5.0  # from the connection, or a later request's first byte, to the end of the headers
MAX_HEADER_BYTES = 64 << 10
WRITE_STALL_S = 60.0  # a client that reads nothing for this long while the write buffer is full is dropped
LINGER_S = 1.0  # wait before closing a refused connection, so that the client receives the error
UPGRADE_HEADERS = (b"upgrade", b"connection")

REFUSALS = {
    400: "the request is malformed: this server speaks HTTP/1.1",
    408: f"the request's headers did not arrive within {HEADER_TIMEOUT_S:.0f} s",
    431: f"the request's first line and headers exceed {MAX_HEADER_BYTES} bytes",
}

log = logging.getLogger("hearth.access")


class HeadersTooLarge(Exception):
    """Raised in a parser callback: the parser stops, and uvicorn calls send_400_response."""


class LimitedHttpProtocol(HttpToolsProtocol):
    """One connection.

    header_timer  limits the time for a request's headers to arrive; None otherwise
    stall_timer   limits the time for which the client does not read; None while writes are possible
    header_bytes  bytes received since header_timer was started
    chunk         the bytes that the parser is reading
    refused       the connection was refused: later bytes are dropped
    """

    header_timer: asyncio.TimerHandle | None = None
    stall_timer: asyncio.TimerHandle | None = None
    header_bytes = 0
    chunk = b""
    refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_header_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_header_timer()
        self.resume_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.stall_timer = self.loop.call_later(WRITE_STALL_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.stall_timer is not None:
            self.stall_timer.cancel()
            self.stall_timer = None

    def data_received(self, data: bytes) -> None:
        if self.refused:
            return
        if self._idle() and self.header_timer is None:
            self._start_header_timer()
        self.chunk = data
        super().data_received(data)
        if self.header_timer is not None:
            self.header_bytes += len(data)
            if self.header_bytes > MAX_HEADER_BYTES:
                self._refuse(431)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: self.transport.abort}  # type: ignore[dict-item]
        if self.header_timer is None:
            self._start_header_timer()

    def on_headers_complete(self) -> None:
        self._stop_header_timer()
        if len(self.url) + sum(map(len, chain.from_iterable(self.headers))) > MAX_HEADER_BYTES:
            raise HeadersTooLarge
        if not self.parser.should_upgrade():
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """Parse the request again without its Upgrade header. uvicorn calls this when the parser stops there.

        Some clients offer HTTP/2 in every request, and the parser reads no body after an Upgrade header.
        """
        (end,) = sys.exception().args  # type: ignore[union-attr]
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        if method == b"CONNECT":
            self._refuse(400)
        else:
            headers = [b"%s: %s" % header for header in self.headers if header[0] not in UPGRADE_HEADERS]
            self.parser = HttpRequestParser(self)
            lines = [b"%s %s HTTP/%s" % (method, self.url, version), *headers, b"", b""]
            self.data_received(b"\r\n".join(lines) + self.chunk[end:])

    def send_400_response(self, msg: str) -> None:
        error = sys.exception()
        self._refuse(431 if error and isinstance(error.__context__, HeadersTooLarge) else 400)

    def _idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _start_header_timer(self) -> None:
        self.header_bytes = 0
        self.header_timer = self.loop.call_later(HEADER_TIMEOUT_S, self._header_timeout)

    def _stop_header_timer(self) -> None:
        if self.header_timer is not None:
            self.header_timer.cancel()
            self.header_timer = None

    def _header_timeout(self) -> None:
        if self.header_bytes:
            self._refuse(408)
        else:
            self.transport.close()

    def _refuse(self, status: int) -> None:
        self.refused = True
        self._stop_header_timer()
        self._unset_keepalive_if_required()
        if not self._idle():  # an earlier response is being written on this connection
            self.transport.close()
            return
        self.transport.write(refusal_response(status))
        self.loop.call_later(LINGER_S, self.transport.close)


def refusal_response(status: int) -> bytes:
    """The bytes of an error response, which is logged under a new request id."""
    request_id = make_request_id(None)
    log.info("request id=%s refused status=%d", request_id, status)
    body = encode(envelope(REFUSALS[status]))
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {MIMETYPE}\r\n"
        f"Content-Length: {len(body)}\r\nX-Request-Id: {request_id}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
