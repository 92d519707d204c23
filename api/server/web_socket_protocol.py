"""uvicorn's protocol of a WebSocket with limits on messages that arrive, and on clients that do not read.

Knows connections and frames, not what a message says. A connection beyond a limit is closed with a code and a
reason (RFC 6455, section 7.4.1).
"""

import asyncio
from collections import deque
from typing import Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.wsproto_impl import WSProtocol
from wsproto import events

from api.server.held_bodies import HeldBodies, HeldBody
from api.server.request_body import arrival_deadline
from api.wsgi_environ import ABORT, CONNECTION_END
from inference.errors import Overloaded

MAX_MESSAGE_BYTES = 8 << 20  # more than the text that fits a model's context
MESSAGE_IDLE_S = 10.0  # a message that receives no bytes for this long is refused
WRITE_STALL_S = 60.0  # a client that reads nothing for this long while the write buffer is full is dropped
POLICY_VIOLATION = 1008
TRY_AGAIN_LATER = 1013


class WebSocketProtocol(WSProtocol):
    """One connection after its handshake's headers.

    connection_end  set when the connection has ended
    held_messages   the bytes of the messages that wait to be answered, and of the one that arrives
    message_timer   limits the time for a message to arrive; None: none is arriving
    started_at      when the first bytes of the message arrived; received_at: the last ones
    """

    stall_timer: asyncio.TimerHandle | None = None
    message_timer: asyncio.TimerHandle | None = None
    started_at = received_at = 0.0

    def __init__(self, held_bodies: HeldBodies, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.held_bodies = held_bodies
        self.held_messages: deque[HeldBody] = deque()
        self.connection_end = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        try:
            super().data_received(data)
        except UnicodeError:  # wsproto decodes some headers of the handshake
            self.transport.write(self.conn.send(events.RejectConnection(status_code=400)))
            self.transport.close()

    def handle_connect(self, event: events.Request) -> None:
        super().handle_connect(event)
        extensions: dict[str, Any] = self.scope["extensions"]
        extensions |= {ABORT: self.transport.abort, CONNECTION_END: self.connection_end}

    def handle_message(self, event: events.TextMessage | events.BytesMessage) -> None:
        self.received_at = self.loop.time()
        if self.message_timer is None:
            self.started_at = self.received_at
            self.held_messages.append(HeldBody(self.held_bodies))
            self._time_message()
        data = event.data
        try:
            self.held_messages[-1].add(len(data.encode() if isinstance(data, str) else data))
        except Overloaded as error:
            self._close(TRY_AGAIN_LATER, error.message)
            return
        super().handle_message(event)
        if event.message_finished:
            self._stop_message_timer()

    def handle_ping(self, event: events.Ping) -> None:
        """A client that does not read its pongs gets no further ones: they would fill the memory."""
        if self.writable.is_set():
            super().handle_ping(event)

    def keepalive_timeout(self) -> None:
        """A client whose pong waits behind a message that is not read yet gets further time."""
        if self.read_paused and self.ping_timeout is not None:
            self.pong_timer = self.loop.call_later(self.ping_timeout, self.keepalive_timeout)
        else:
            super().keepalive_timeout()

    async def receive(self) -> Any:
        message = await super().receive()
        if message["type"] == "websocket.receive" and self.held_messages:
            self.held_messages.popleft().release()
        return message

    async def send(self, message: Any) -> None:
        """Raises ClientDisconnected, an OSError, once the connection closes."""
        if self.close_sent:
            raise ClientDisconnected
        await super().send(message)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_stall_timer()
        self._stop_message_timer()
        for held_message in self.held_messages:
            held_message.release()
        self.held_messages.clear()
        self.connection_end.set()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.stall_timer = self.loop.call_later(WRITE_STALL_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_stall_timer()

    def _time_message(self) -> None:
        """Close the connection if the message is late; else look again when it will be."""
        now = self.loop.time()
        if self.read_paused:  # the rest waits behind a message that is not read yet
            self.started_at = self.received_at = now
        deadline = arrival_deadline(self.started_at, self.received_at, self.buffer.length, MESSAGE_IDLE_S)
        if now < deadline:
            self.message_timer = self.loop.call_later(deadline - now, self._time_message)
        else:
            self._close(
                POLICY_VIOLATION, f"the message arrives too slowly: {self.buffer.length} bytes so far"
            )

    def _close(self, code: int, reason: str) -> None:
        """Close the connection once everything is sent; what still arrives is dropped."""
        if not self.close_sent:
            self.close_sent = True
            self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
            self.transport.write(self.conn.send(events.CloseConnection(code=code, reason=reason)))
            self.transport.close()

    def _stop_stall_timer(self) -> None:
        if self.stall_timer is not None:
            self.stall_timer.cancel()
            self.stall_timer = None

    def _stop_message_timer(self) -> None:
        if self.message_timer is not None:
            self.message_timer.cancel()
            self.message_timer = None
