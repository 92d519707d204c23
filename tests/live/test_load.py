"""Many clients at once: nobody is refused, nobody starves, nothing is left behind by those who hang up."""

import asyncio
import json
import random
import statistics
import time

import pytest
import requests

from api.front.bridge import WORKERS
from tests.serving import Server

STREAMS = 64
HANGUPS = 1000
RETURN_TIMEOUT_S = 20
LEEWAY = 4  # descriptors that may be open for other reasons; a leak would show a thousand


async def open_chat(port: int, prompt: str, *, stream: bool = True, tokens: int = 200) -> tuple:
    body = json.dumps(
        {
            "model": "m",
            "messages": [{"role": "user", "content": prompt}],
            "sampling_params": {"max_tokens": tokens},
            "stream": stream,
        }
    ).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = "POST /inference/chat_completion HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    writer.write(
        f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    )
    return reader, writer


async def chat(port: int, prompt: str) -> tuple[str, list[float]]:
    """The text of one streamed answer, and when its pieces came."""
    reader, writer = await open_chat(port, prompt)
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


async def everyone(port: int, prompts: list[str]) -> tuple[list[tuple[str, list[float]]], float]:
    start = time.monotonic()
    answers = await asyncio.gather(*(chat(port, prompt) for prompt in prompts))
    return answers, time.monotonic() - start


@pytest.mark.slow
def test_64_streams_progress_together_and_faster_than_one_by_one(server: Server) -> None:
    prompts = [counting(1 + k % 8, 60) for k in range(STREAMS)]
    for warmth in (prompts, prompts[:1]):
        asyncio.run(everyone(server.port, warmth))
    alone, alone_s = asyncio.run(everyone(server.port, prompts[:1]))
    answers, together_s = asyncio.run(everyone(server.port, prompts))
    assert answers[0][0] == alone[0][0], "the same prompt has the same answer under load"
    speed = lambda batch, seconds: sum(len(stamps) for _, stamps in batch) / seconds  # noqa: E731
    ratio = speed(answers, together_s) / speed(alone, alone_s)
    rates = [len(stamps) / (stamps[-1] - stamps[0]) for _, stamps in answers]
    print(f"\n{STREAMS} streams: {ratio:.1f} × the pieces per second of one")
    assert ratio > 4
    assert min(rates) > statistics.median(rates) / 3, "some streams waited for others"


async def hang_up(port: int, chance: random.Random) -> None:
    """Ask for a long answer, streamed or not, and leave at a random moment."""
    reader, writer = await open_chat(port, counting(1, 100), stream=chance.random() < 0.7, tokens=500)
    try:
        await asyncio.wait_for(reader.read(chance.choice((1, 500, 5000))), chance.random() * 0.3)
    except TimeoutError:
        pass
    if chance.random() < 0.5:
        writer.transport.abort()
    writer.close()


async def hang_up_often(port: int) -> None:
    chance = random.Random(7)
    for _ in range(HANGUPS // 50):
        await asyncio.gather(*(hang_up(port, chance) for _ in range(50)))


@pytest.mark.slow
def test_a_thousand_hangups_leave_nothing_behind(server: Server) -> None:
    asyncio.run(everyone(server.port, [counting(1, 9)] * 50))
    assert not busy(server)
    threads, files, _ = server.usage
    asyncio.run(hang_up_often(server.port))
    end = time.monotonic() + RETURN_TIMEOUT_S
    while time.monotonic() < end and (busy(server) or server.usage[1] > files + LEEWAY):
        time.sleep(0.1)
    assert not busy(server)
    assert server.usage[0] <= threads + WORKERS, "the pool may have grown to its size, nothing else"
    assert server.usage[1] <= files + LEEWAY
    assert "20" in asyncio.run(chat(server.port, counting(17, 20)))[0]


def busy(server: Server) -> dict[str, float]:
    """Gauges of sequences and rows that are not back to zero."""
    lines = requests.get(server.url + "/metrics", timeout=5).text.splitlines()
    gauges = dict(
        line.split(" ", 1) for line in lines if line.startswith(("hearth_running", "hearth_waiting"))
    )
    assert gauges, "the metrics say nothing about sequences"
    return {name: float(value) for name, value in gauges.items() if float(value)}
