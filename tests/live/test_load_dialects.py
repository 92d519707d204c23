"""Many clients of all dialects at once: no error, nobody starves, nothing is left behind by who leaves."""

import asyncio
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import requests

from api.front.bridge import WORKERS
from tests.live.crowd import LEEWAY, answered, busy, leave, opened
from tests.live.hostile import send, undisturbed
from tests.serving import Server, serving

pytestmark = pytest.mark.slow

STREAMS = 64
LEAVING = 1000
LIMIT = 4
SEATS = 128  # as many as there are
RETURN_TIMEOUT_S = 30
GROWTH = 100 << 20  # bytes: the allocator's own; an answer kept by each who left would be more
ASKED = [{"role": "user", "content": "Count from 1 to 60."}]
TOKENS = 300

# Streams of each dialect, and what each stream holds at its end.
STREAMED: dict[str, tuple[str, dict[str, Any], bytes]] = {
    "llama stack": (
        "/inference/chat_completion",
        {"model": "m", "messages": ASKED, "sampling_params": {"max_tokens": TOKENS}, "stream": True},
        b'"complete"',
    ),
    "openai": (
        "/v1/completions",
        {"prompt": "1, 2, 3,", "max_tokens": TOKENS, "ignore_eos": True, "stream": True},
        b"data: [DONE]",
    ),
    "openai chat": (
        "/v1/chat/completions",
        {"messages": ASKED, "max_tokens": TOKENS, "n": 2, "temperature": 1, "stream": True},
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
WHOLE: dict[str, tuple[str, dict[str, Any]]] = {
    "llama stack": ("/inference/completion", {"model": "m", "content": "1, 2,"}),
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
    data = await answered(port, path, body)
    assert data.startswith(b"HTTP/1.1 200 OK") and b'"error"' not in data.replace(b'"error":null', b""), (
        name,
        data[-500:],
    )
    assert end in data, (name, data[-500:])


async def come_and_go(port: int) -> None:
    """Whole streams beside those who leave, never more than the server has seats."""
    chance, seats = random.Random(11), asyncio.Semaphore(STREAMS)

    async def one_of_many(work: Any) -> None:
        async with seats:
            await work

    asked = [*((path, body) for path, body, _ in STREAMED.values()), *WHOLE.values()]
    leaving = [leave(port, *chance.choice(asked), chance) for _ in range(LEAVING)]
    staying = [complete(port, name) for name in STREAMED for _ in range(4)]
    everyone = [*leaving, *staying]
    chance.shuffle(everyone)
    await asyncio.gather(*map(one_of_many, everyone))


def rest(server: Server) -> None:
    """Until nothing runs or waits any more."""
    end = time.monotonic() + RETURN_TIMEOUT_S
    while load(server) or busy(server):
        assert time.monotonic() < end, (load(server), busy(server))
        time.sleep(0.1)


def load(server: Server) -> int:
    """Sequences and errands."""
    return int(requests.get(f"{server.url}/load", timeout=10).json()["server_load"])


def test_64_streams_of_all_dialects_are_all_whole(server: Server) -> None:
    async def all_at_once() -> None:
        names = list(STREAMED)
        await asyncio.gather(*(complete(server.port, names[k % len(names)]) for k in range(STREAMS)))

    with undisturbed(server):
        asyncio.run(all_at_once())
    rest(server)


def test_a_thousand_who_leave_leave_nothing_behind_in_any_dialect(server: Server) -> None:
    asyncio.run(come_and_go(server.port))
    rest(server)
    threads, files, memory = server.usage
    asyncio.run(come_and_go(server.port))
    rest(server)
    end = time.monotonic() + RETURN_TIMEOUT_S
    while time.monotonic() < end and server.usage[1] > files + LEEWAY:
        time.sleep(0.1)
    assert server.usage[0] <= threads + WORKERS
    assert server.usage[1] <= files + LEEWAY
    assert server.usage[2] <= memory + GROWTH
    assert set(asyncio.run(seated(server.port, SEATS))) == {b"HTTP/1.1 200 OK"}
    rest(server)


async def seated(port: int, number: int) -> list[bytes]:
    """The first line of so many answers at once."""
    path, body, _ = STREAMED["openai"]
    streams = [await opened(port, path, body) for _ in range(number)]
    lines = [(await reader.readline()).strip() for reader, _ in streams]
    for _, writer in streams:
        writer.transport.abort()
    return lines


# What one request may cost the others -----------------------------------------------------------------------

HEAVY: dict[str, tuple[str, dict[str, Any]]] = {
    "embeddings": ("/v1/embeddings", {"input": [[5] * 2000] * 2048}),
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
def test_a_heavy_request_starves_nobody_and_ends_when_its_client_leaves(server: Server, name: str) -> None:
    async def beside() -> None:
        heavy = [await opened(server.port, *HEAVY[name]) for _ in range(3)]
        try:
            async with asyncio.timeout(60):
                while await asyncio.to_thread(load, server) < len(heavy):
                    await asyncio.sleep(0.1)
                await complete(server.port, "llama stack")
        finally:
            for _, writer in heavy:
                writer.transport.abort()

    with undisturbed(server):
        asyncio.run(beside())
    rest(server)


# Limits and the end -----------------------------------------------------------------------------------------


@contextmanager
def narrow(*flags: str) -> Iterator[Server]:
    with serving("--served-names", "m", "--log-level", "warning", *flags) as running:
        yield running


def test_one_too_many_is_told_so_in_each_dialects_words_until_others_leave() -> None:
    async def filled(server: Server) -> None:
        held = [await opened(server.port, *STREAMED["openai"][:2]) for _ in range(LIMIT)]
        for reader, _ in held:
            await reader.readline()
        for name, (path, body) in WHOLE.items():
            refused = await asyncio.to_thread(send, requests, server.url + path, body)
            assert refused.status_code == 429 and int(refused.headers["Retry-After"]) >= 1, name
            assert refused.json()["error"], name
        for _, writer in held:
            writer.transport.abort()

    with narrow("--max-concurrent-requests", str(LIMIT)) as server:
        for _ in range(3):
            asyncio.run(filled(server))
            rest(server)
            for path, body in WHOLE.values():
                assert send(requests, server.url + path, body).status_code == 200


@pytest.mark.parametrize(("drain_s", "whole"), [("60", True), ("1", False)])
def test_at_a_signal_streams_of_all_dialects_end_properly(drain_s: str, whole: bool) -> None:
    async def interrupted(server: Server) -> None:
        begun = {name: await opened(server.port, path, body) for name, (path, body, _) in STREAMED.items()}
        first = {name: await reader.readline() for name, (reader, _) in begun.items()}
        server.process.send_signal(signal.SIGTERM)
        for name, (reader, _) in begun.items():
            data = first[name] + await reader.read()
            assert data.rstrip().endswith((b"}", b"[DONE]", b"0")), (name, data[-300:])
            end = STREAMED[name][2]
            assert (end in data) if whole else (end in data or b"shutting down" in data), (name, data[-300:])

    with narrow("--drain-seconds", drain_s) as server:
        asyncio.run(interrupted(server))
        assert server.process.wait(30) == 0
