"""The body of a request as a file: in memory while it is small, else on disk; closing the file deletes it.

Knows ASGI's `receive`, and limits of size and time. Does not know routes.
"""

import asyncio
import contextlib
import io
import logging
import random
import tempfile
from collections.abc import Awaitable, Callable
from typing import Any, BinaryIO, TypeVar

from api.errors import BodyNotStored, SlowBody
from api.hooks.body_limits import BodyLimit, too_large
from api.server.held_bodies import HeldBody
from api.wsgi_environ import RECEIVED

SPOOL_BYTES = 1 << 20  # a body that is larger is written to disk, about this much at a time
MAX_SPREAD = 1.1  # of `idle_s`: clients that stop at the same moment are refused one after another
MIN_BYTES_PER_S = 1024  # average rate of a body, with an allowance of `idle_s`; slower ones are refused

Receive = Callable[[], Awaitable[dict[str, Any]]]
T = TypeVar("T")

log = logging.getLogger(__name__)


class ClientDisconnected(Exception):
    """The client closed the connection."""


async def read_body(
    scope: dict[str, Any], receive: Receive, body_limit: BodyLimit, idle_s: float, held_body: HeldBody
) -> BinaryIO:
    """The whole body, as a file at its start. Its bytes are added to `held_body`.

    A body over the limit of its route is refused: before it is read if the client declares its length, else
    while it arrives. A body without new bytes for `idle_s` seconds, or slower than MIN_BYTES_PER_S, is
    refused, too. Nothing is received while bytes are written to disk. Raises TooLarge, SlowBody,
    BodyNotStored, Overloaded, and ClientDisconnected.
    """
    limit = body_limit(scope["method"], scope["path"])
    if int(dict(scope["headers"]).get(b"content-length", 0)) > limit:
        raise too_large(limit)
    idle_s *= random.uniform(1, MAX_SPREAD)
    clock, extensions = asyncio.get_running_loop().time, scope.get("extensions", {})
    body = SpooledBody()
    start, size, more = clock(), 0, True
    try:
        while more:
            if RECEIVED in extensions:  # the rest is here: no clock is needed
                chunk, more = await _receive(receive)
            else:
                deadline = arrival_deadline(start, clock(), size, idle_s)
                chunk, more = await _receive_chunk(receive, deadline, size)
            size += len(chunk)
            if size > limit:
                raise too_large(limit)
            held_body.add(len(chunk))
            await body.append(chunk)
        return await body.to_file()
    except BaseException:
        await body.discard()
        raise


def arrival_deadline(start: float, last: float, num_bytes: int, idle_s: float) -> float:
    """When further bytes must have arrived. start, last: the times of the first and the last ones"""
    return min(last, start + num_bytes / MIN_BYTES_PER_S) + idle_s


async def _receive_chunk(receive: Receive, deadline: float, size: int) -> tuple[bytes, bool]:
    """The next bytes, and whether more follow. Raises SlowBody at the deadline, and ClientDisconnected."""
    try:
        async with asyncio.timeout_at(deadline):
            return await _receive(receive)
    except TimeoutError:
        raise SlowBody(f"the body arrives too slowly: {size} bytes so far") from None


async def _receive(receive: Receive) -> tuple[bytes, bool]:
    """The next bytes, and whether more follow. Raises ClientDisconnected."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnected
    return message.get("body", b""), message.get("more_body", False)


class SpooledBody:
    """The bytes of a body as they arrive: in memory while they are few, else in a file."""

    def __init__(self) -> None:
        self._pending = bytearray()  # received, and not yet in the file
        self._file: BinaryIO | None = None

    async def append(self, chunk: bytes) -> None:
        """Raises BodyNotStored."""
        self._pending += chunk
        if len(self._pending) > SPOOL_BYTES:
            self._file = self._file or await _in_thread(tempfile.TemporaryFile)
            await _in_thread(_append, self._file, self._pending)

    async def to_file(self) -> BinaryIO:
        """All bytes, as a file at its start. Raises BodyNotStored."""
        if self._file is None:
            return io.BytesIO(self._pending)
        await _in_thread(_append, self._file, self._pending)
        self._file.seek(0)
        return self._file

    async def discard(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # the bytes that the disk refused are not needed
                await asyncio.to_thread(self._file.close)  # deleting a large file takes time


async def _in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function that uses the disk, and may wait for it. Raises BodyNotStored where it fails."""
    try:
        return await asyncio.to_thread(function, *arguments)
    except OSError as error:
        log.error("cannot store a request's body in the temporary folder: %s", error)
        raise BodyNotStored from None


def _append(file: BinaryIO, pending: bytearray) -> None:
    """Move the bytes of `pending` to the end of the file."""
    file.write(pending)
    file.flush()
    pending.clear()
