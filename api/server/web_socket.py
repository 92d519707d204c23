"""WebSockets: each message of a client is a POST to the path of its handshake, answered by messages.

The app answers the handshake, which it gets as a GET, with 101 or a refusal. An event of a stream is a
message, and so is the body of another response. Knows the bridge and ASGI, not routes: the app finds in the
environ that a request is a message (MESSAGE_STATE).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from api.server.request_body import Receive
from api.server.response_sender import Headers, Send
from api.wsgi_environ import ABORT, CONNECTION_END, MESSAGE_STATE, RECEIVED

IDLE_S = 3600.0  # a connection without a message for this long is closed, as OpenAI closes its connections
GOING_AWAY = 1001  # RFC 6455, section 7.4.1
HTTP_SCHEMES = {"ws": "http", "wss": "https"}
HANDSHAKE_HEADERS = (b"connection", b"upgrade", b"content-length", b"content-type", b"transfer-encoding")
EVENT_STREAM = b"text/event-stream"

Asgi = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


class WebSocket:
    """One connection: its messages are answered one after the other.

    bridge          answers a message like a request
    state           what the app remembers of the connection
    connection_end  set when the connection has ended
    """

    def __init__(self, scope: dict[str, Any], receive: Receive, send: Send, bridge: Asgi) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.bridge = bridge
        self.state: dict[str, Any] = {}
        self.connection_end: asyncio.Event = scope["extensions"][CONNECTION_END]

    async def run(self) -> None:
        """Answer until the client leaves, or sends no message for IDLE_S.

        The next message waits at the connection, which is not read meanwhile.
        """
        await self.receive()  # websocket.connect
        if not await self._shake_hands():
            return
        try:
            while (message := await asyncio.wait_for(self.receive(), IDLE_S))["type"] == "websocket.receive":
                text = message.get("text")
                await self._answer_message(message["bytes"] if text is None else text.encode())
        except TimeoutError:
            await self.send({"type": "websocket.close", "code": GOING_AWAY})

    async def _shake_hands(self) -> bool:
        """Whether the app accepts the connection. Else its response is sent."""
        response = CollectedResponse()
        await self._request("GET", b"", response.collect)
        if response.status == 101:
            await self.send({"type": "websocket.accept"})
            return True
        start = {"status": response.status, "headers": response.headers}
        await self.send({"type": "websocket.http.response.start", **start})
        await self.send({"type": "websocket.http.response.body", "body": response.body})
        return False

    async def _answer_message(self, message: bytes) -> None:
        if self.connection_end.is_set():
            return
        response = CollectedResponse()

        async def send(sent: dict[str, Any]) -> None:
            response.add(sent)
            for text in response.take_texts(is_end=not sent.get("more_body", True)):
                with suppress(OSError):  # the client has left
                    await self.send({"type": "websocket.send", "text": text})

        await self._request("POST", message, send)

    async def _request(self, method: str, body: bytes, send: Send) -> None:
        """Call the bridge with a request that has the headers of the handshake."""
        is_unread = True

        async def receive() -> dict[str, Any]:
            nonlocal is_unread
            if is_unread:
                is_unread = False
                return {"type": "http.request", "body": body, "more_body": False}
            await self.connection_end.wait()
            return {"type": "http.disconnect"}

        headers = [header for header in self.scope["headers"] if not _is_of_handshake(header[0])]
        headers += [(b"content-length", str(len(body)).encode()), (b"content-type", b"application/json")]
        extensions = {RECEIVED: time.perf_counter(), MESSAGE_STATE: self.state}
        scope = {
            **self.scope,
            "type": "http",
            "method": method,
            "scheme": HTTP_SCHEMES[self.scope["scheme"]],
            "headers": headers,
            "extensions": {**extensions, ABORT: self.scope["extensions"][ABORT]},
        }
        await self.bridge(scope, receive, send)


class CollectedResponse:
    """The messages that ASGI sends for one response. body: its bytes that are not yet taken"""

    def __init__(self) -> None:
        self.status = 500
        self.headers: Headers = []
        self.body = b""

    async def collect(self, sent: dict[str, Any]) -> None:
        self.add(sent)

    def add(self, sent: dict[str, Any]) -> None:
        self.status, self.headers = sent.get("status", self.status), sent.get("headers", self.headers)
        self.body += sent.get("body", b"")

    def take_texts(self, is_end: bool) -> list[str]:
        """The data of the events that are complete; of a response without events, its body at the end."""
        if dict(self.headers).get(b"content-type", b"").startswith(EVENT_STREAM):
            *blocks, self.body = self.body.split(b"\n\n")
            return [block.partition(b"data: ")[2].decode() for block in blocks]
        return [self.body.decode()] if is_end else []


def _is_of_handshake(name: bytes) -> bool:
    return name in HANDSHAKE_HEADERS or name.startswith(b"sec-websocket-")
