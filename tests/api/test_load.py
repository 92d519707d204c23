"""Many clients at once, and many who leave: no error, and nothing left behind."""

import asyncio
import json
import os
import random
import threading
from collections.abc import Callable

import pytest

from tests.api.conftest import Live, request
from tests.fake_backend import FakeBackend, say

Start = Callable[..., Live]
TEXTS = [f"t{i}" for i in range(20)]


async def stream(port: int, framing: str = "sse") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps({"stream": framing}).encode()
    writer.write(request("POST", "/say", body, "Connection: close"))
    data = await reader.read()
    writer.close()
    return data


def test_two_hundred_streams_at_once_are_all_whole(live: Start) -> None:
    server = live(FakeBackend(say(*TEXTS), pace_s=0.01))

    async def all_at_once() -> list[bytes]:
        return await asyncio.gather(*(stream(server.port, ("sse", "")[i % 2]) for i in range(200)))

    for i, answer in enumerate(asyncio.run(all_at_once())):
        assert answer.startswith(b"HTTP/1.1 200 OK")
        texts = TEXTS if i % 2 == 0 else ["".join(TEXTS)]
        assert all(f'"{text}"'.encode() in answer for text in texts)
    server.until(lambda: not server.backend.open)


async def leave(port: int, after_s: float, framing: str) -> None:
    """Ask, and hang up after a while, in the middle of whatever is going on."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    sent = request("POST", "/say", json.dumps({"stream": framing}).encode())
    writer.write(sent[: random.choice([len(sent), len(sent), 30, len(sent) - 3])])
    await asyncio.sleep(after_s)
    random.choice([writer.close, writer.transport.abort])()


@pytest.mark.slow
def test_a_thousand_who_leave_leave_nothing_behind(live: Start) -> None:
    random.seed(1)
    server = live(FakeBackend(lambda _: say(*TEXTS, pause_s=random.choice([0.0, 0.01, 30.0])), pace_s=0.005))
    asyncio.run(leave(server.port, 0.2, "sse"))
    server.until(lambda: not server.front.bridge.running)
    before = held()

    async def come_and_go() -> None:
        leaving = (leave(server.port, random.uniform(0, 0.5), random.choice(["", "sse"])) for _ in range(100))
        await asyncio.gather(*leaving)

    for _ in range(10):
        asyncio.run(come_and_go())
    server.until(lambda: not server.front.bridge.running)
    server.until(lambda: not server.front.server.server_state.connections)
    assert not server.backend.open and not server.front.bridge.outlets
    assert len(server.backend.streams) > 300
    assert held() == before


def held() -> tuple[int, int]:
    """Threads, but for the pool of workers, and file descriptors."""
    threads = [thread for thread in threading.enumerate() if not thread.name.startswith("http")]
    return len(threads), len(os.listdir("/proc/self/fd"))
