"""Many clients of all dialects at once: no error, none starves, those that leave leave nothing behind."""

import asyncio
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import requests

from api.server.asgi_bridge import NUM_WORKERS
from tests.live.hostile import send, undisturbed
from tests.live.load_clients import LEEWAY, busy, fetch, leave, send_request
from tests.servers.serving import ServerProcess, serving

pytestmark = pytest.mark.slow

STREAMS = 64
WARM_UP, LEAVING = 250, 750  # clients that disconnect before and while the server's growth is measured
LIMIT = 4
PERMITS = 128  # the default limit of concurrent requests
RETURN_TIMEOUT_S = 120
GROWTH = 75 << 20  # bytes, for the allocator; an answer kept for each disconnected client would take more
MESSAGES = [{"role": "user", "content": "Count from 1 to 60."}]
TOKENS = 200

# Streams of each dialect, and bytes that each stream contains at its end.
STREAMED: dict[str, tuple[str, dict[str, Any], bytes]] = {
    "llama stack": (
        "/inference/chat_completion",
        {"model": "m", "messages": MESSAGES, "sampling_params": {"max_tokens": TOKENS}, "stream": True},
        b'"complete"',
    ),
    "openai": (
        "/v1/completions",
        {"prompt": "1, 2, 3,", "max_tokens": TOKENS, "ignore_eos": True, "stream": True},
        b"data: [DONE]",
    ),
    "openai chat": (
        "/v1/chat/completions",
        {"messages": MESSAGES, "max_tokens": TOKENS, "n": 2, "temperature": 1, "stream": True},
        b"data: [DONE]",
    ),
    "responses": (
        "/v1/responses",
        {"input": "Count from 1 to 60.", "max_output_tokens": TOKENS, "stream": True},
        b'"type":"response.completed"',
    ),
    "tgi": (
        "/generate_stream",
        {"inputs": "1, 2, 3,", "parameters": {"max_new_tokens": TOKENS, "do_sample": True, "details": True}},
        b'"finish_reason"',
    ),
    "neodim": (
        "/generate",
        {"prompt": "1, 2, 3,", "generated_tokens_count": TOKENS, "max_total_tokens": 2000, "stream": True},
        b'"sequences"',
    ),
    "contrastive": (
        "/generate",
        {
            "prompt": "1, 2, 3,",
            "generated_tokens_count": 20,
            "max_total_tokens": 2000,
            "penalty_alpha": 0.5,
            "top_k": 64,
            "stream": True,
        },
        b'"sequences"',
    ),
}
UNSTREAMED: dict[str, tuple[str, dict[str, Any]]] = {
    "llama stack": ("/inference/completion", {"model": "m", "content": "1, 2,"}),
    "llama stack chat": ("/inference/chat_completion", {"model": "m", "messages": MESSAGES}),
    "openai": ("/v1/completions", {"prompt": "1, 2,", "max_tokens": 2}),
    "responses": ("/v1/responses", {"input": "1, 2,", "max_output_tokens": 2}),
    "tgi": ("/generate", {"inputs": "1, 2,", "parameters": {"max_new_tokens": 2}}),
    "neodim": ("/generate", {"prompt": "1, 2,", "generated_tokens_count": 2, "max_total_tokens": 100}),
    "vertex": ("/vertex", {"instances": [{"inputs": "1, 2,", "parameters": {"max_new_tokens": 2}}] * 3}),
    "embeddings": ("/v1/embeddings", {"input": ["1, 2,"] * 200}),
    "embeddings of llama stack": (
        "/v1/inference/embeddings",
        {"model": "m", "contents": ["1, 2,"] * 200},
    ),
}


async def complete(port: int, name: str) -> None:
    path, body, end = STREAMED[name]
    data = await fetch(port, path, body)
    assert data.startswith(b"HTTP/1.1 200 OK") and b'"error"' not in data.replace(b'"error":null', b""), (
        name,
        data[-500:],
    )
    assert end in data, (name, data[-500:])


async def come_and_go(port: int, num_leaving: int) -> None:
    """Whole streams together with clients that disconnect, never more than STREAMS at once."""
    chance, permits = random.Random(11), asyncio.Semaphore(STREAMS)

    async def one_of_many(work: Any) -> None:
        async with permits:
            await work

    bodies = [*((path, body) for path, body, _ in STREAMED.values()), *UNSTREAMED.values()]
    leaving = [leave(port, *chance.choice(bodies), chance) for _ in range(num_leaving)]
    staying = [complete(port, name) for name in STREAMED for _ in range(2)]
    everyone = [*leaving, *staying]
    chance.shuffle(everyone)
    await asyncio.gather(*map(one_of_many, everyone))


def wait_until_idle(server: ServerProcess) -> None:
    """Waits until nothing runs or is queued."""
    end = time.monotonic() + RETURN_TIMEOUT_S
    while load(server) or busy(server):
        assert time.monotonic() < end, (load(server), busy(server))
        time.sleep(0.1)


def load(server: ServerProcess) -> int:
    """The number of sequences and background tasks."""
    return int(requests.get(f"{server.url}/load", timeout=60).json()["server_load"])


def test_64_streams_of_all_dialects_are_complete(server: ServerProcess) -> None:
    async def all_at_once() -> None:
        names = list(STREAMED)
        await asyncio.gather(*(complete(server.port, names[k % len(names)]) for k in range(STREAMS)))

    with undisturbed(server):
        asyncio.run(all_at_once())
    wait_until_idle(server)


def test_a_thousand_disconnects_leave_nothing_behind_in_any_dialect(server: ServerProcess) -> None:
    asyncio.run(come_and_go(server.port, WARM_UP))
    wait_until_idle(server)
    threads, files, memory = server.usage
    asyncio.run(come_and_go(server.port, LEAVING))
    wait_until_idle(server)
    end = time.monotonic() + RETURN_TIMEOUT_S
    while time.monotonic() < end and server.usage[1] > files + LEEWAY:
        time.sleep(0.1)
    assert server.usage[0] <= threads + NUM_WORKERS
    assert server.usage[1] <= files + LEEWAY
    assert server.usage[2] <= memory + GROWTH
    assert set(asyncio.run(first_lines(server.port, PERMITS))) == {b"HTTP/1.1 200 OK"}
    wait_until_idle(server)


async def first_lines(port: int, number: int) -> list[bytes]:
    """The first line of each of `number` simultaneous responses."""
    path, body, _ = STREAMED["openai"]
    streams = [await send_request(port, path, body) for _ in range(number)]
    lines = [(await reader.readline()).strip() for reader, _ in streams]
    for _, writer in streams:
        writer.transport.abort()
    return lines


HEAVY: dict[str, tuple[str, dict[str, Any]]] = {
    "embeddings": ("/v1/embeddings", {"input": [[5] * 500] * 2048}),
    "contrastive search": (
        "/generate",
        {
            "prompt": "a b " * 450,
            "generated_tokens_count": 1000,
            "max_total_tokens": 2048,
            "penalty_alpha": 0.5,
            "top_k": 64,
            "sequences_count": 64,
        },
    ),
}


@pytest.mark.parametrize("name", HEAVY)
def test_a_heavy_request_starves_no_other_and_ends_when_its_client_disconnects(
    server: ServerProcess, name: str
) -> None:
    async def complete_under_load() -> None:
        heavy = [await send_request(server.port, *HEAVY[name]) for _ in range(3)]
        try:
            async with asyncio.timeout(60):
                while await asyncio.to_thread(load, server) < len(heavy):
                    await asyncio.sleep(0.1)
                await complete(server.port, "llama stack")
        finally:
            for _, writer in heavy:
                writer.transport.abort()

    with undisturbed(server):
        asyncio.run(complete_under_load())
    wait_until_idle(server)


# A stream that does not end before the requests that others send meanwhile have been refused.
LONG = (
    "/v1/completions",
    {"prompt": "1, 2,", "max_tokens": 2000, "n": 16, "ignore_eos": True, "stream": True},
)


def wait_until_permitted(server: ServerProcess) -> None:
    """Waits until the permits of aborted streams have returned: a little later than their sequences end."""
    end = time.monotonic() + RETURN_TIMEOUT_S
    while send(requests, server.url + UNSTREAMED["openai"][0], UNSTREAMED["openai"][1]).status_code == 429:
        assert time.monotonic() < end, "the permits do not return"
        time.sleep(0.1)


@contextmanager
def narrow(*flags: str) -> Iterator[ServerProcess]:
    with serving("--served-names", "m", "--log-level", "warning", *flags) as running:
        yield running


def test_a_request_beyond_the_limit_is_refused_in_each_dialect_until_others_end() -> None:
    async def filled(server: ServerProcess) -> None:
        connections = [await send_request(server.port, *LONG) for _ in range(LIMIT)]
        for reader, _ in connections:
            await reader.readline()
        for name, (path, body) in UNSTREAMED.items():
            refused = await asyncio.to_thread(send, requests, server.url + path, body)
            assert refused.status_code == 429 and int(refused.headers["Retry-After"]) >= 1, name
            assert refused.json()["error"], name
        for _, writer in connections:
            writer.transport.abort()

    with narrow("--max-concurrent-requests", str(LIMIT)) as server:
        for _ in range(2):
            asyncio.run(filled(server))
            wait_until_idle(server)
            wait_until_permitted(server)
            for path, body in UNSTREAMED.values():
                assert send(requests, server.url + path, body).status_code == 200


@pytest.mark.parametrize(("drain_s", "completes"), [("60", True), ("1", False)])
def test_on_a_signal_streams_of_all_dialects_end_properly(drain_s: str, completes: bool) -> None:
    async def interrupted(server: ServerProcess) -> None:
        connections = {
            name: await send_request(server.port, path, body) for name, (path, body, _) in STREAMED.items()
        }
        first = {name: await reader.readline() for name, (reader, _) in connections.items()}
        server.process.send_signal(signal.SIGTERM)
        for name, (reader, _) in connections.items():
            data = first[name] + await reader.read()
            assert data.rstrip().endswith((b"}", b"[DONE]", b"0")), (name, data[-300:])
            end = STREAMED[name][2]
            assert (end in data) if completes else (end in data or b"shutting down" in data), (
                name,
                data[-300:],
            )

    with narrow("--drain-seconds", drain_s) as server:
        asyncio.run(interrupted(server))
        assert server.process.wait(60) == 0
