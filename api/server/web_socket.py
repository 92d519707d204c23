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

from uvicorn.protocols.websockets.wsproto_impl import WSProtocol
from wsproto import events

from api.server.request_body import Receive
from api.server.response_sender import Headers, Send
from api.wsgi_environ import ABORT, MESSAGE_STATE, RECEIVED

MAX_MESSAGE_BYTES = 8 << 20  # more than the text that fits a model's context
IDLE_S = 3600.0  # a connection without a message for this long is closed, as OpenAI closes its connections
WRITE_STALL_S = 60.0  # a client that reads nothing for this long while the write buffer is full is dropped
GOING_AWAY = 1001  # RFC 6455, section 7.4.1
HTTP_SCHEMES = {"ws": "http", "wss": "https"}
HANDSHAKE_HEADERS = (b"connection", b"upgrade", b"content-length", b"content-type", b"transfer-encoding")
EVENT_STREAM = b"text/event-stream"

Asgi = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


class WebSocketProtocol(WSProtocol):
    """One connection after its handshake's headers: uvicorn's, with a limit on the time of a client that does
    not read.
    """

    stall_timer: asyncio.TimerHandle | None = None

    def handle_connect(self, event: events.Request) -> None:
        super().handle_connect(event)
        self.scope["extensions"][ABORT] = self.transport.abort  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_stall_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.stall_timer = self.loop.call_later(WRITE_STALL_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_stall_timer()

    def _stop_stall_timer(self) -> None:
        if self.stall_timer is not None:
            self.stall_timer.cancel()
            self.stall_timer = None


class WebSocket:
    """One connection: its messages are answered one after the other.

    bridge    answers a message like a request
    state     what the app remembers of the connection
    messages  the next message; the connection is not read while it waits. None: the client has left
    """

    def __init__(self, scope: dict[str, Any], receive: Receive, send: Send, bridge: Asgi) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.bridge = bridge
        self.state: dict[str, Any] = {}
        self.messages: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=1)
        self.disconnected = asyncio.Event()

    async def run(self) -> None:
        """Answer until the client leaves, or sends no message for IDLE_S."""
        await self.receive()  # websocket.connect
        if not await self._shake_hands():
            return
        reader = asyncio.create_task(self._read())
        try:
            while (message := await asyncio.wait_for(self.messages.get(), IDLE_S)) is not None:
                await self._answer_message(message)
        except TimeoutError:
            await self.send({"type": "websocket.close", "code": GOING_AWAY})
        finally:
            reader.cancel()

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

    async def _read(self) -> None:
        while (message := await self.receive())["type"] == "websocket.receive":
            text = message.get("text")
            await self.messages.put(message["bytes"] if text is None else text.encode())
        self.disconnected.set()
        await self.messages.put(None)

    async def _answer_message(self, message: bytes) -> None:
        if self.disconnected.is_set():
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
            await self.disconnected.wait()
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
