"""An Answer's way out through one connection: what waits to be sent, and the end of a reader too slow for it.

Lives on the event loop. Knows Answers and ASGI's `send`; the bridge tells it when the client has left.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from api.stream import Answer
from inference.errors import ServerError

Send = Callable[[dict[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

QUEUED = 256  # steps that may wait for a reader whose connection takes no more


class Outlet:
    def __init__(self, answer: Answer, abort: Callable[[], None]) -> None:
        """`abort` drops the connection at once, with what is still unsent."""
        self.answer = answer
        self.abort = abort
        self.waiting: list[bytes] = []
        self.changed = asyncio.Event()
        self.opened = False
        self.sending = False
        self.left = False

    async def run(self, send: Send, headers: Headers) -> None:
        """Send what arrives until the answer has ended or the client left. Status and headers go with the
        first bytes; `headers` are the response's, the answer's own replace them."""
        if not self.answer.ended:
            self.answer.start(self.push)
        while True:
            await self.changed.wait()
            self.changed.clear()
            if self.left:
                return
            data, ended = b"".join(self.waiting), self.answer.ended
            self.waiting.clear()
            if self.answer.status:
                self.sending = True
                await self._send(send, headers, data, ended)
                self.sending = False
            if ended:
                return

    def push(self, data: bytes) -> None:
        opens = self.answer.status and not self.opened
        if not (data or opens or self.answer.ended):
            return
        self.waiting.append(data)
        self.changed.set()
        if self.sending and len(self.waiting) > QUEUED * self.answer.answers:
            self.leave()
            self.abort()

    def leave(self) -> None:
        """Nobody reads any more."""
        self.left = True
        self.answer.close()
        self.changed.set()

    def cut(self, error: ServerError) -> None:
        """End the answer with `error`, in its dialect's words."""
        if not self.answer.ended:
            self.push(self.answer.feed(error))

    async def _send(self, send: Send, headers: Headers, data: bytes, ended: bool) -> None:
        if not self.opened:
            self.opened = True
            await send(self._head(headers, len(data) if ended else None))
        if data or ended:
            await send({"type": "http.response.body", "body": data, "more_body": not ended})

    def _head(self, headers: Headers, length: int | None) -> dict[str, Any]:
        own = {"Content-Type": self.answer.mimetype, **self.answer.headers}
        if length is not None:
            own["Content-Length"] = str(length)
        replaced = encoded(own.items())
        names = {name for name, _ in replaced}
        kept = [(name, value) for name, value in headers if name not in names]
        return {"type": "http.response.start", "status": self.answer.status, "headers": kept + replaced}


def encoded(headers: Any) -> Headers:
    return [(name.lower().encode("latin1"), value.encode("latin1")) for name, value in headers]
