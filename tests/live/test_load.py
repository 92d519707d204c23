"""Many clients at once: none is refused, none starves, and disconnecting clients leave nothing behind."""

import asyncio
import json
import random
import statistics
import time
from typing import Any

import pytest

from api.server.asgi_bridge import NUM_WORKERS
from tests.live.load_clients import LEEWAY, busy, leave, send_request
from tests.servers.serving import ServerProcess

STREAMS = 64
HANGUPS = 1000
RETURN_TIMEOUT_S = 20


def question(prompt: str, *, stream: bool = True, tokens: int = 200) -> tuple[str, dict[str, Any]]:
    """The path and the body of a chat request."""
    messages = [{"role": "user", "content": prompt}]
    body = {"model": "m", "messages": messages, "sampling_params": {"max_tokens": tokens}, "stream": stream}
    return "/inference/chat_completion", body


async def chat(port: int, prompt: str) -> tuple[str, list[float]]:
    """The text of one streamed answer, and the times at which its chunks arrived."""
    reader, writer = await send_request(port, *question(prompt))
    text, stamps, complete = "", [], False
    async for line in reader:
        if line.startswith(b"{"):
            event = json.loads(line)["event"]
            complete = complete or event["event_type"] == "complete"
            text += event["delta"]
            stamps.append(time.monotonic())
    writer.close()
    assert complete, f"the stream broke off after {text!r}"
    return text, stamps


def counting(first: int, last: int) -> str:
    return f"Count from {first} to {last}."


async def everyone(port: int, prompts: list[str]) -> list[tuple[str, list[float]]]:
    return await asyncio.gather(*(chat(port, prompt) for prompt in prompts))


def speed(server: ServerProcess, prompts: list[str]) -> tuple[float, list[tuple[str, list[float]]]]:
    """Chunks per second of the server's CPU time, and the answers."""
    before = server.cpu_seconds
    results = asyncio.run(everyone(server.port, prompts))
    return sum(len(stamps) for _, stamps in results) / (server.cpu_seconds - before), results


@pytest.mark.slow
def test_64_streams_progress_together_and_faster_than_one_by_one(server: ServerProcess) -> None:
    prompts = [counting(1 + k % 8, 60) for k in range(STREAMS)]
    for warmup_prompts in (prompts, prompts[:1]):
        asyncio.run(everyone(server.port, warmup_prompts))
    slow, alone = speed(server, prompts[:1])
    fast, results = speed(server, prompts)
    ratio = fast / slow
    rates = [len(stamps) / (stamps[-1] - stamps[0]) for _, stamps in results]
    print(f"\n{STREAMS} streams: {ratio:.1f} × the pieces per second of one")
    assert results[0][0] == alone[0][0], "the same prompt has the same answer under load"
    assert ratio > 1.3, "the demo model's native steps take less time than sending their results"
    assert min(rates) > statistics.median(rates) / 3, "some streams waited for others"


async def hang_up(port: int, chance: random.Random) -> None:
    """Requests a long answer, streamed or not, and disconnects."""
    await leave(port, *question(counting(1, 100), stream=chance.random() < 0.7, tokens=500), chance)


async def hang_up_often(port: int) -> None:
    chance = random.Random(7)
    for _ in range(HANGUPS // 50):
        await asyncio.gather(*(hang_up(port, chance) for _ in range(50)))


@pytest.mark.slow
def test_a_thousand_disconnects_leave_nothing_behind(server: ServerProcess) -> None:
    asyncio.run(everyone(server.port, [counting(1, 9)] * 50))
    assert not busy(server)
    threads, files, _ = server.usage
    asyncio.run(hang_up_often(server.port))
    end = time.monotonic() + RETURN_TIMEOUT_S
    while time.monotonic() < end and (busy(server) or server.usage[1] > files + LEEWAY):
        time.sleep(0.1)
    assert not busy(server)
    assert server.usage[0] <= threads + NUM_WORKERS, "the pool may have grown to its size, nothing else"
    assert server.usage[1] <= files + LEEWAY
    assert "20" in asyncio.run(chat(server.port, counting(17, 20)))[0]
