"""Many clients at once, and many that disconnect: no error, and no leaked resource."""

import asyncio
import gc
import json
import logging
import os
import random
import threading
from collections.abc import Callable

import pytest

from tests.api.conftest import LiveServer, request
from tests.fakes.fake_backend import FakeBackend, say

Start = Callable[..., LiveServer]
TEXTS = [f"t{i}" for i in range(20)]


async def stream(port: int, framing: str = "sse") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps({"stream": framing}).encode()
    writer.write(request("POST", "/say", body, "Connection: close"))
    data = await reader.read()
    writer.close()
    return data


def test_two_hundred_concurrent_streams_are_complete(live: Start) -> None:
    server = live(FakeBackend(say(*TEXTS), pace_s=0.01))

    async def all_at_once() -> list[bytes]:
        return await asyncio.gather(*(stream(server.port, ("sse", "")[i % 2]) for i in range(200)))

    for i, response in enumerate(asyncio.run(all_at_once())):
        assert response.startswith(b"HTTP/1.1 200 OK")
        texts = TEXTS if i % 2 == 0 else ["".join(TEXTS)]
        assert all(f'"{text}"'.encode() in response for text in texts)
    server.until(lambda: not server.backend.open_streams)


def test_mangled_requests_are_answered_or_dropped(live: Start, caplog: pytest.LogCaptureFixture) -> None:
    random.seed(2)
    server = live(FakeBackend(say("a")))
    valid_request = request("POST", "/say?a=%20", b'{"stream": "sse"}', "Accept: */*", "Connection: close")

    async def all_at_once() -> list[int]:
        return await asyncio.gather(*(status(server.port, mangled(valid_request)) for _ in range(300)))

    statuses = set(asyncio.run(all_at_once()))
    assert {200, 400} <= statuses and max(statuses - {505}) < 500
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert server.exchange(request("GET", "/health", b"", "Connection: close")).endswith(b'{"status":"OK"}')


async def status(port: int, sent: bytes) -> int:
    """The status of the response to `sent`; 0 if the server sends none within 3 s because it expects more."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    try:
        line = await asyncio.wait_for(reader.readline(), 3.0)
    except TimeoutError:
        line = b""
    writer.close()
    return int(line.split()[1]) if line else 0


def mangled(data: bytes) -> bytes:
    """`data` with up to three slices deleted, repeated or replaced."""
    for _ in range(random.randint(0, 3)):
        at = random.randrange(len(data))
        to = at + random.randint(1, 8)
        middle = random.choice([b"", data[at:to] * 2, random.randbytes(4), b"\r\n", b"\x00", b"%ff"])
        data = data[:at] + middle + data[to:]
    return data


async def disconnect(port: int, after_s: float, framing: str) -> None:
    """Sends a request, or a part of it, and disconnects after `after_s`."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    sent = request("POST", "/say", json.dumps({"stream": framing}).encode())
    writer.write(sent[: random.choice([len(sent), len(sent), 30, len(sent) - 3])])
    await asyncio.sleep(after_s)
    random.choice([writer.close, writer.transport.abort])()


@pytest.mark.system("linux")  # others do not list open files
@pytest.mark.slow
def test_a_thousand_disconnects_leak_nothing(live: Start) -> None:
    random.seed(1)
    server = live(FakeBackend(lambda _: say(*TEXTS, pause_s=random.choice([0.0, 0.01, 30.0])), pace_s=0.005))
    asyncio.run(disconnect(server.port, 0.2, "sse"))
    wait_until_idle(server)
    before = count_resources()

    async def disconnect_many() -> None:
        clients = (
            disconnect(server.port, random.uniform(0, 0.5), random.choice(["", "sse"])) for _ in range(100)
        )
        await asyncio.gather(*clients)

    for _ in range(10):
        asyncio.run(disconnect_many())
    wait_until_idle(server)
    assert not server.backend.open_streams and not server.http_server.bridge.senders
    assert len(server.backend.streams) > 100
    after = count_resources()
    assert all(now <= then for now, then in zip(after, before, strict=True)), f"{before} became {after}"


def wait_until_idle(server: LiveServer) -> None:
    """Until no request runs and each connection is closed: an open one would count as a resource."""
    server.until(lambda: not server.http_server.bridge.running)
    server.until(lambda: not server.http_server.server.server_state.connections)


def count_resources() -> tuple[int, int]:
    """The number of threads, without the worker pool, and of file descriptors.

    Garbage is collected first: a file that an earlier test left to the collector would hide a leak.
    """
    gc.collect()
    threads = [thread for thread in threading.enumerate() if not thread.name.startswith("http")]
    return len(threads), len(os.listdir("/proc/self/fd"))
