"""A transport that sends what is written in one turn of the event loop at once.

uvicorn writes the head and the body of a response one after the other, and uvloop sends each write by itself:
two system calls, and two times that the client wakes up. Knows asyncio's transports alone.
"""

import asyncio
from typing import Any


class JoinedWrites(asyncio.Transport):
    """The transport of one connection. What is written is sent in the next turn of the loop."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._unsent: list[bytes] = []

    def write(self, data: Any) -> None:
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent.append(data)

    def close(self) -> None:
        """Close the connection once everything is sent."""
        self._send()
        self._transport.close()

    def abort(self) -> None:
        """Close the connection at once; unsent bytes are dropped."""
        self._unsent.clear()
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._transport.set_protocol(protocol)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def _send(self) -> None:
        data = b"".join(self._unsent)
        self._unsent.clear()
        if data and not self._transport.is_closing():
            self._transport.write(data)
