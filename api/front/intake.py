"""Reading a request to its end, within limits of size and patience, and noticing that its sender has left.

Knows ASGI's `receive`. A refused request is not an exception: the app is to say why, in its dialect's words.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from api.errors import SlowBody
from api.limits import too_large
from inference.errors import ServerError

Receive = Callable[[], Awaitable[dict[str, Any]]]

SLOWEST = 1024  # bytes a second, on average, after the first silence has been forgiven


class Gone(Exception):
    """The client has left."""


async def read_body(
    scope: dict[str, Any], receive: Receive, max_body: int, silence_s: float
) -> tuple[bytes, ServerError | None]:
    """The body, or why it was not read to its end; raises Gone. Nothing for `silence_s` ends the reading."""
    declared = next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)
    if declared > max_body:
        return b"", too_large(max_body)
    clock = asyncio.get_running_loop().time
    begun, body, more = clock(), bytearray(), True
    while more:
        latest = min(clock(), begun + len(body) / SLOWEST) + silence_s
        try:
            async with asyncio.timeout_at(latest):
                message = await receive()
        except TimeoutError:
            return b"", SlowBody(f"the body stopped arriving after {len(body)} bytes")
        if message["type"] == "http.disconnect":
            raise Gone
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > max_body:
            return b"", too_large(max_body)
    return bytes(body), None


async def departure(receive: Receive) -> None:
    """Returns when the client has left; whatever it still sends is dropped."""
    while (await receive())["type"] != "http.disconnect":
        pass
