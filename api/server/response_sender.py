"""Sends one ResponseBody over one connection, and drops a client that reads too slowly.

Runs on the event loop. Knows ResponseBody and ASGI's `send`. The bridge reports a disconnected client.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from api.response import ResponseBody
from inference.errors import ServerError

Send = Callable[[dict[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

# A stream that can waits until so many bytes, or steps, are sent.
MAX_QUEUED_BYTES = 128 << 10
MAX_QUEUED_STEPS = 256  # engine steps per answer that may wait while the connection accepts no bytes


class ResponseSender:
    def __init__(self, response: ResponseBody, drop_connection: Callable[[], None]) -> None:
        """`drop_connection` closes the connection at once and discards its unsent bytes."""
        self.response = response
        self.drop_connection = drop_connection
        self.queue: list[bytes] = []
        self.num_queued_bytes = 0
        self.has_room = asyncio.Event()
        self.changed = asyncio.Event()
        self.headers_sent = False
        self.is_sending = False
        self.disconnected = False

    async def run(self, send: Send, headers: Headers) -> None:
        """Send the response until it ends or the client disconnects.

        Status and headers are sent with the first bytes. Headers of the ResponseBody replace those in
        `headers` with the same name.
        """
        if not self.response.has_ended:
            self.response.start(self.push)
        while True:
            await self.changed.wait()
            self.changed.clear()
            if self.disconnected:
                return
            data, has_ended = b"".join(self.queue), self.response.has_ended
            self.queue.clear()
            self.num_queued_bytes = 0
            self.has_room.set()
            self.is_sending = True
            if not self.headers_sent:
                self.headers_sent = True
                await send(self._start_message(headers, len(data) if has_ended else None))
            if data or has_ended:
                await send({"type": "http.response.body", "body": data, "more_body": not has_ended})
            self.is_sending = False
            if has_ended:
                return

    def push(self, data: bytes) -> asyncio.Event | None:
        """Queue the data. Returns what is set once there is room for more; None: there is."""
        is_first = self.response.status and not self.headers_sent
        if not (data or is_first or self.response.has_ended):
            return None
        self.queue.append(data)
        self.num_queued_bytes += len(data)
        self.changed.set()
        if self.is_sending and len(self.queue) > MAX_QUEUED_STEPS * self.response.num_answers:
            self.disconnect()
            self.drop_connection()
        if self.num_queued_bytes < MAX_QUEUED_BYTES and len(self.queue) < MAX_QUEUED_STEPS:
            return None
        self.has_room.clear()
        return self.has_room

    def disconnect(self, _: Any = None) -> None:
        """Close the response, which cancels the generation, and end `run`. Can be a callback of a Future."""
        self.disconnected = True
        self.response.close()
        self.changed.set()

    def abort(self, error: ServerError) -> None:
        """End the response with `error`, rendered by its writer."""
        if not self.response.has_ended:
            self.push(self.response.feed(error))

    def _start_message(self, headers: Headers, length: int | None) -> dict[str, Any]:
        own_headers = {"Content-Type": self.response.mimetype, **self.response.headers}
        if length is not None:
            own_headers["Content-Length"] = str(length)
        encoded_headers = dict(encode_headers(own_headers.items()))
        other_headers = [header for header in headers if header[0] not in encoded_headers]
        return {
            "type": "http.response.start",
            "status": self.response.status,
            "headers": [*other_headers, *encoded_headers.items()],
        }


def encode_headers(headers: Iterable[tuple[str, str]]) -> Headers:
    return [(name.lower().encode("latin1"), value.encode("latin1")) for name, value in headers]
