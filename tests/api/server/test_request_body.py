"""The body of a request as a file: in memory or on disk, refused or interrupted, and always deleted."""

import asyncio
import io
import tempfile
import threading
import tracemalloc
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, BinaryIO

import pytest

from api.errors import BodyNotStored, SlowBody
from api.server.held_bodies import HeldBodies, HeldBody
from api.server.request_body import SPOOL_BYTES, ClientDisconnected, read_body
from inference.errors import ServerError, TooLarge
from tests.api.conftest import full_disk
from tests.timeouts import TIMEOUT_S

LIMIT = 64 * SPOOL_BYTES
CHUNK = bytes(range(256)) * 1024  # as much as a socket delivers at once
DISCONNECT = {"type": "http.disconnect"}
LAST = {"type": "http.request", "body": b"", "more_body": False}

Receive = Callable[[], Awaitable[dict[str, Any]]]
SpooledFiles = Callable[[], list[str]]


def chunks_of(size: int) -> list[bytes]:
    full_chunks, rest = divmod(size, len(CHUNK))
    return [CHUNK] * full_chunks + [CHUNK[:rest]] * bool(rest)


def receiving(chunks: Iterable[bytes], *last: dict[str, Any]) -> Receive:
    """ASGI's `receive`: these chunks, the messages of `last`, and then nothing more."""
    remaining, last_messages = iter(chunks), iter(last)

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0)
        if chunk := next(remaining, None):
            return {"type": "http.request", "body": chunk, "more_body": True}
        return next(last_messages, None) or await asyncio.Future()

    return receive


async def read(
    receive: Receive, declared: int | None = None, limit: int = LIMIT, idle_s: float = TIMEOUT_S
) -> BinaryIO:
    headers = [] if declared is None else [(b"content-length", str(declared).encode())]
    scope = {"method": "POST", "path": "/", "headers": headers}
    return await read_body(scope, receive, lambda method, path: limit, idle_s, HeldBody(HeldBodies()))


@pytest.mark.parametrize("size", [0, 1, len(CHUNK) + 1, SPOOL_BYTES])
def test_a_small_body_stays_in_memory(size: int) -> None:
    body = asyncio.run(read(receiving(chunks_of(size), LAST)))
    assert isinstance(body, io.BytesIO) and body.read() == b"".join(chunks_of(size))


@pytest.mark.parametrize("size", [SPOOL_BYTES + 1, 5 * SPOOL_BYTES, 5 * SPOOL_BYTES + 7])
def test_a_larger_body_is_on_disk_until_it_is_closed(size: int, spooled_files: SpooledFiles) -> None:
    with asyncio.run(read(receiving(chunks_of(size), LAST))) as body:
        assert len(spooled_files()) == 1
        assert body.read() == b"".join(chunks_of(size))
    assert not spooled_files()


def test_a_body_on_disk_is_not_in_memory() -> None:
    chunks = (bytes(len(CHUNK)) for _ in range(20 * SPOOL_BYTES // len(CHUNK)))
    tracemalloc.start()
    try:
        asyncio.run(read(receiving(chunks, LAST))).close()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * SPOOL_BYTES


class SlowDisk(io.BytesIO):
    """Each write takes until the event loop has run many times."""

    num_writes = 0
    is_writing = False

    def __init__(self) -> None:
        super().__init__()
        self.tick = threading.Semaphore(0)  # released by the event loop

    def write(self, data: Any) -> int:
        self.num_writes += 1
        self.is_writing = True
        assert all(self.tick.acquire(timeout=TIMEOUT_S) for _ in range(20)), "the event loop is blocked"
        self.is_writing = False
        return super().write(data)


def test_a_slow_disk_stops_the_client_and_not_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SlowDisk()
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: disk)
    source = receiving(chunks_of(3 * SPOOL_BYTES), LAST)

    async def receive() -> dict[str, Any]:
        assert not disk.is_writing
        return await source()

    async def run() -> None:
        reading = asyncio.ensure_future(read(receive))
        while not reading.done():
            if disk.is_writing:
                disk.tick.release()
            await asyncio.sleep(0.001)
        assert (await reading).read() == b"".join(chunks_of(3 * SPOOL_BYTES))

    asyncio.run(run())
    assert disk.num_writes == 3


def test_a_declared_length_over_the_limit_is_refused_unread() -> None:
    async def receive() -> dict[str, Any]:
        raise AssertionError("nothing is read")

    with pytest.raises(TooLarge, match="exceeds 10 bytes"):
        asyncio.run(read(receive, declared=11, limit=10))


def test_clients_that_stop_at_the_same_moment_are_refused_one_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deadlines: list[float] = []
    timeout_at = asyncio.timeout_at
    monkeypatch.setattr(asyncio, "timeout_at", lambda when: deadlines.append(when) or timeout_at(when))

    async def refuse() -> None:
        with pytest.raises(SlowBody):
            await read(receiving([]), idle_s=0.2)

    async def run() -> None:
        await asyncio.gather(*(refuse() for _ in range(20)))

    asyncio.run(run())
    assert len(deadlines) == 20 and max(deadlines) - min(deadlines) > 0.005


# What follows three chunks on disk -> the error, and the options of `read`.
FAILURES: dict[str, tuple[list[dict[str, Any]], type[Exception], dict[str, Any]]] = {
    "over the limit": ([LAST], TooLarge, {"limit": 3 * SPOOL_BYTES - 1}),
    "client disconnected": ([DISCONNECT], ClientDisconnected, {}),
    "nothing more arrives": ([], SlowBody, {"idle_s": 0.05}),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_deletes_what_is_on_disk(name: str, spooled_files: SpooledFiles) -> None:
    last, error, options = FAILURES[name]
    num_on_disk = 0

    async def counting() -> dict[str, Any]:
        nonlocal num_on_disk
        num_on_disk = max(num_on_disk, len(spooled_files()))
        return await source()

    source = receiving(chunks_of(3 * SPOOL_BYTES), *last)
    with pytest.raises(error):
        asyncio.run(read(counting, **options))
    assert (num_on_disk, spooled_files()) == (1, [])


def test_a_cancelled_reader_deletes_what_is_on_disk(spooled_files: SpooledFiles) -> None:
    async def run() -> None:
        reading = asyncio.ensure_future(read(receiving(chunks_of(2 * SPOOL_BYTES))))
        async with asyncio.timeout(TIMEOUT_S):
            while not spooled_files():
                await asyncio.sleep(0.001)
        reading.cancel()
        await asyncio.wait([reading])
        assert reading.cancelled()

    asyncio.run(run())
    assert not spooled_files()


def no_folder() -> BinaryIO:
    raise FileNotFoundError(2, "No usable temporary directory found in ['/secret']")


@pytest.mark.parametrize("open_file", [pytest.param(full_disk, marks=pytest.mark.system("linux")), no_folder])
@pytest.mark.parametrize("size", [SPOOL_BYTES + 1, 3 * SPOOL_BYTES])
def test_a_full_disk_is_an_error_without_a_leak(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    open_file: Callable[[], BinaryIO],
    size: int,
) -> None:
    opened: list[BinaryIO] = []

    def open_temporary_file() -> BinaryIO:
        opened.append(open_file())
        return opened[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", open_temporary_file)
    with pytest.raises(BodyNotStored) as caught:
        asyncio.run(read(receiving(chunks_of(size), LAST)))
    error: ServerError = caught.value
    assert error.status == 507 and "secret" not in error.message
    assert all(file.closed for file in opened) and "cannot store" in caplog.text
