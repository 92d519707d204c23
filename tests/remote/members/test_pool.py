"""Several servers of one model: which one answers, and what happens when one fails."""

import asyncio
import random
import time
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

from inference.backend import Backend
from inference.errors import Overloaded, Unavailable
from inference.events import Token
from inference.types import GenerationRequest, Message
from tests.remote.conftest import OpenModel
from tests.remote.fake_upstream import FakeUpstream, Reply, document, start, wait_until
from tests.remote.openai_chunks import DONE, chat_chunk, say, usage_chunk, whole_answer

CHAT = (Message("user", "hi"),)


@pytest.fixture
def other(loop: asyncio.AbstractEventLoop) -> Iterator[FakeUpstream]:
    upstream = FakeUpstream()
    server = start(upstream, loop)
    upstream.reply = lambda sent: whole_answer("other")
    yield upstream
    loop.call_soon_threadsafe(server.close)


@pytest.fixture
def pool(upstream: FakeUpstream, other: FakeUpstream, open_upstream: OpenModel) -> Backend:
    upstream.reply = lambda sent: whole_answer("first")
    return open_upstream(members=[f"vllm_chat:{other.url}/v1"])


def answer_text(backend: Backend, text: str = "hi") -> str:
    request = GenerationRequest((Message("user", text),))
    return "".join(event.text for event in backend.generate(request) if isinstance(event, Token))


def error(status: int, **headers: str) -> Reply:
    return document({"error": {"message": "no"}}, status, **headers)


@pytest.fixture(autouse=True)
def same_choices() -> None:
    """Equal servers are chosen by chance: the same ones in each run."""
    random.seed(3)


@pytest.mark.parametrize(
    "reply",
    [
        error(500),
        error(401),
        error(404),
        error(429),
        error(307),
        Reply(["reset"]),
        Reply([b"<"], content_type="text/html"),
    ],
)
def test_another_server_answers_for_one_that_fails(
    reply: Reply,
    upstream: FakeUpstream,
    other: FakeUpstream,
    pool: Backend,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("inference.remote.members.breaker.FIRST_REST_S", 60.0)
    upstream.reply = reply
    started_at = time.monotonic()
    assert answer_text(pool) == "other"
    assert time.monotonic() - started_at < 50, "it waits for no rest"
    assert len(other.bodies) == 1


def test_a_server_that_fails_gets_no_more_requests_for_a_time(
    upstream: FakeUpstream, other: FakeUpstream, pool: Backend
) -> None:
    upstream.reply = error(500)
    assert [answer_text(pool, f"question {number}") for number in range(20)] == ["other"] * 20
    assert len(upstream.bodies) == 3 and not pool.unavailable_reason()


def test_a_refused_request_is_not_sent_to_others(
    upstream: FakeUpstream, other: FakeUpstream, pool: Backend
) -> None:
    upstream.reply = other.reply = error(400)
    with pytest.raises(Exception, match="refuses the request"):
        answer_text(pool)
    assert len(upstream.bodies) + len(other.bodies) == 1


def test_idle_servers_get_requests_by_chance(
    upstream: FakeUpstream, other: FakeUpstream, pool: Backend
) -> None:
    texts = [answer_text(pool, f"question {number}") for number in range(30)]
    assert 5 < texts.count("first") < 25


def test_an_answer_that_has_begun_is_not_repeated_elsewhere(
    upstream: FakeUpstream, other: FakeUpstream, pool: Backend
) -> None:
    upstream.reply = other.reply = Reply([chat_chunk({"content": "The capital"}), "reset"])
    with pytest.raises(Unavailable, match="broken answer"):
        answer_text(pool)
    assert len(upstream.bodies) + len(other.bodies) == 1


def test_the_pool_is_unavailable_if_all_servers_rest(
    upstream: FakeUpstream, other: FakeUpstream, pool: Backend
) -> None:
    upstream.reply = other.reply = error(500)
    for _ in range(3):
        with pytest.raises(Unavailable):
            answer_text(pool)
    assert pool.unavailable_reason()
    upstream.reply = other.reply = lambda sent: whole_answer("back")
    assert answer_text(pool) == "back", "the one that failed first is tried"


def test_a_request_goes_to_all_servers_while_they_turn_it_away(
    upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    upstream.reply = error(503, **{"Retry-After": "30"})
    pool = open_upstream(members=[f"vllm_chat:{upstream.url}/v1"] * 5)
    with pytest.raises(Unavailable):
        answer_text(pool)
    assert len(upstream.bodies) == 6


def test_all_servers_are_overloaded(upstream: FakeUpstream, other: FakeUpstream, pool: Backend) -> None:
    upstream.reply = other.reply = error(429, **{"Retry-After": "30"})
    with pytest.raises(Overloaded) as failure:
        answer_text(pool)
    assert failure.value.retry_after == 30


@pytest.mark.parametrize("status", [429, 503])
def test_a_client_returns_when_the_first_server_has_rested(
    upstream: FakeUpstream, other: FakeUpstream, pool: Backend, status: int
) -> None:
    upstream.reply = error(status, **{"Retry-After": "30"})
    other.reply = error(status, **{"Retry-After": "50"})
    start = time.monotonic()
    for _ in range(4):
        with pytest.raises((Overloaded, Unavailable), match=r"busy|failed: ") as failure:
            answer_text(pool)
        assert "50 s" not in str(failure.value)
        elapsed = time.monotonic() - start
        assert 30 - elapsed <= vars(failure.value)["retry_after"] <= 30


def test_equal_beginnings_go_to_the_same_server(
    upstream: FakeUpstream, other: FakeUpstream, pool: Backend
) -> None:
    for number in range(10):  # a server that is not measured yet is tried
        answer_text(pool, f"{number} " * 400)
    stories = ["once upon a time " * 100, "call me Ishmael " * 100]
    texts = [[answer_text(pool, story + str(number)) for number in range(5)] for story in stories]
    assert all(len(set(each)) == 1 for each in texts)


def test_concurrent_requests_are_spread(
    upstream: FakeUpstream, other: FakeUpstream, pool: Backend, loop: asyncio.AbstractEventLoop
) -> None:
    have_all_arrived = asyncio.Event()
    upstream.reply = other.reply = Reply([have_all_arrived, *whole_answer("slow").steps])
    streams = [pool.generate(GenerationRequest((Message("user", f"{n} " * 300),))) for n in range(6)]
    wait_until(lambda: len(upstream.bodies) + len(other.bodies) == 6)
    loop.call_soon_threadsafe(have_all_arrived.set)
    for stream in streams:
        list(stream)
    assert (len(upstream.bodies), len(other.bodies)) == (3, 3)


def test_expected_and_cached_tokens_of_prompts_are_counted(
    upstream: FakeUpstream, other: FakeUpstream, pool: Backend, registry: CollectorRegistry
) -> None:
    steps = [*say("yes"), usage_chunk(256, 1, cached=64)]
    upstream.reply = other.reply = lambda sent: Reply([*steps, DONE])
    prompt = "many words " * 93  # four blocks of the prefix index
    for _ in range(2):
        answer_text(pool, prompt)

    def count(kind: str) -> float | None:
        labels = {"model": "up/model", "kind": kind}
        return registry.get_sample_value("hearth_upstream_prefix_tokens_total", labels)

    assert (count("expected"), count("cached")) == (256, 128)
