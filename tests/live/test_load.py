"""Many clients at once: none is refused, and none starves."""

import asyncio
import json
import statistics
import time
from typing import Any

import pytest

from tests.live.load_clients import send_request
from tests.servers.serving import ServerProcess

STREAMS = 64


def question(prompt: str) -> tuple[str, dict[str, Any]]:
    """The path and the body of a chat request."""
    messages = [{"role": "user", "content": prompt}]
    body = {"model": "m", "messages": messages, "sampling_params": {"max_tokens": 200}, "stream": True}
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
