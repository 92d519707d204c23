"""uvicorn's HTTP/1.1 protocol with the limits it lacks: on the time and the size of a request's head.

Knows connections and bytes, no route. What it refuses never reaches the app; it says so in JSON.
"""

import asyncio
import logging
import sys
from http import HTTPStatus

from httptools import HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.access import request_id
from api.encode import MIMETYPE, encode
from api.environ import ABORT
from api.errors import envelope

HEAD_S = 5.0  # from the first byte of a request, or from connecting, to the end of its headers
HEAD_BYTES = 64 << 10
STUCK_S = 60.0  # what a reader may leave unread, with our buffers full, before it is dropped
LINGER_S = 1.0  # a refused connection stays for so long, for its sender to see the refusal
OFFERS = (b"upgrade", b"connection")

REFUSALS = {
    400: "the request is malformed: this server speaks HTTP/1.1",
    408: f"the request's headers did not arrive within {HEAD_S:.0f} s",
    431: f"the request's first line and headers exceed {HEAD_BYTES} bytes",
}

log = logging.getLogger("hearth.access")


class HeadTooLarge(Exception):
    """Raised inside the parser, which stops and has `send_400_response` called."""


class GuardedProtocol(HttpToolsProtocol):
    """One connection.

    late     the timer of a head that is still arriving, None at any other time
    stuck    the timer of a reader who does not read, None at any other time
    head     bytes of that head
    piece    the bytes the parser is at
    refused  answered by the guard: what still comes is dropped
    """

    late: asyncio.TimerHandle | None = None
    stuck: asyncio.TimerHandle | None = None
    head = 0
    piece = b""
    refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_ends()
        self.resume_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.stuck = self.loop.call_later(STUCK_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.stuck is not None:
            self.stuck.cancel()
            self.stuck = None

    def data_received(self, data: bytes) -> None:
        if self.refused:
            return
        if self._resting() and self.late is None:
            self._await_head()
        self.piece = data
        super().data_received(data)
        if self.late is not None:
            self.head += len(data)
            if self.head > HEAD_BYTES:
                self._refuse(431)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: self.transport.abort}  # type: ignore[dict-item]
        if self.late is None:
            self._await_head()

    def on_headers_complete(self) -> None:
        self._head_ends()
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEAD_BYTES:
            raise HeadTooLarge
        if not self.parser.should_upgrade():
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """What uvicorn calls where the parser stopped: some clients offer HTTP/2 with every request, and the
        parser leaves such a request's body alone. Begin again, with the head as it is without the offer."""
        (end,) = sys.exception().args  # type: ignore[union-attr]
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        if method == b"CONNECT":
            self._refuse(400)
        else:
            kept = [b"%s: %s" % header for header in self.headers if header[0] not in OFFERS]
            self.parser = HttpRequestParser(self)
            lines = [b"%s %s HTTP/%s" % (method, self.url, version), *kept, b"", b""]
            self.data_received(b"\r\n".join(lines) + self.piece[end:])

    def send_400_response(self, msg: str) -> None:
        error = sys.exception()
        self._refuse(431 if error and isinstance(error.__context__, HeadTooLarge) else 400)

    def _resting(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _await_head(self) -> None:
        self.head = 0
        self.late = self.loop.call_later(HEAD_S, self._too_late)

    def _head_ends(self) -> None:
        if self.late is not None:
            self.late.cancel()
            self.late = None

    def _too_late(self) -> None:
        if self.head:
            self._refuse(408)
        else:
            self.transport.close()

    def _refuse(self, status: int) -> None:
        self.refused = True
        self._head_ends()
        self._unset_keepalive_if_required()
        if not self._resting():  # an answer to an earlier request is under way: never write into it
            self.transport.close()
            return
        self.transport.write(refusal(status))
        self.loop.call_later(LINGER_S, self.transport.close)


def refusal(status: int) -> bytes:
    """A whole response, logged under a request id of its own."""
    name = request_id(None)
    log.info("request id=%s refused status=%d", name, status)
    body = encode(envelope(REFUSALS[status]))
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {MIMETYPE}\r\n"
        f"Content-Length: {len(body)}\r\nX-Request-Id: {name}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
