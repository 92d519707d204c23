"""An answer whose server fails goes on at another server, token for token."""

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from inference.backend import Backend
from inference.errors import Unavailable
from inference.events import CallDelta, Embedded, Event, Finished, Started, Token
from inference.remote import attempts
from inference.remote.answer_settings import START_HEADER
from inference.sampling import Sampling
from inference.types import GenerationRequest, Message, Tool
from tests.remote.conftest import OpenModel
from tests.remote.fake_upstream import FakeUpstream, Reply, Sent, Step, document, start, wait_until
from tests.remote.openai_chunks import DONE, chat_chunk, usage_chunk

CHAT = (Message("user", "hi"),)
TOKENS = ((5, "The "), (6, "capital"), (7, " is"), (8, " Paris"))
TOOL = Tool("find", "", {"type": "object"})


def token_chunks(tokens: tuple[tuple[int, str], ...] = TOKENS) -> list[Step]:
    return [
        chat_chunk({"role": "assistant", "content": ""}),
        *(chat_chunk({"content": text}, token_ids=[id]) for id, text in tokens),
    ]


def complete(chunks: list[Step]) -> list[Step]:
    return [*chunks, chat_chunk({}, reason="stop"), usage_chunk(5, 4), DONE]


@pytest.fixture
def other(loop: asyncio.AbstractEventLoop) -> Iterator[FakeUpstream]:
    upstream = FakeUpstream()
    server = start(upstream, loop)
    yield upstream
    loop.call_soon_threadsafe(server.close)


@pytest.fixture
def pool(other: FakeUpstream, open_upstream: OpenModel) -> Backend:
    return open_upstream("hearth", members=[f"hearth:{other.url}/v1"])


def play_in_turn(upstreams: tuple[FakeUpstream, FakeUpstream], *replies: list[Step]) -> list[Sent]:
    """Answer the requests with these steps in turn, whichever server gets them; the last one repeats."""
    requests: list[Sent] = []
    steps = itertools.chain(replies, itertools.repeat(replies[-1]))

    def reply(sent: Sent) -> Reply:
        requests.append(sent)
        return Reply(next(steps))

    for upstream in upstreams:
        upstream.reply = reply
    return requests


def without_start(events: list[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, Started)]


@pytest.mark.parametrize("num_chunks", range(1, 6))
def test_an_answer_goes_on_at_another_server(
    num_chunks: int, upstream: FakeUpstream, other: FakeUpstream, pool: Backend
) -> None:
    request = GenerationRequest(CHAT, Sampling(greedy=True))
    play_in_turn((upstream, other), complete(token_chunks()))
    expected = list(pool.generate(request))
    requests = play_in_turn(
        (upstream, other), [*token_chunks()[:num_chunks], "reset"], complete(token_chunks())
    )
    events = list(pool.generate(request))
    assert without_start(events) == without_start(expected)
    assert sum(isinstance(event, Started) for event in events) == 1
    ids = [id for id, _ in TOKENS][: num_chunks - 1]
    assert [each.body.get("output_token_ids", []) for each in requests] == [[], ids]


def test_tokens_that_the_client_has_are_not_counted_again(
    upstream: FakeUpstream, other: FakeUpstream, pool: Backend, registry: CollectorRegistry
) -> None:
    play_in_turn((upstream, other), [*token_chunks()[:3], "reset"], complete(token_chunks()))
    list(pool.generate(GenerationRequest(CHAT, Sampling(greedy=True))))
    assert registry.get_sample_value("hearth_upstream_tokens_total", {"model": "up/model"}) == len(TOKENS)


def test_a_sampled_answer_keeps_its_seed(upstream: FakeUpstream, other: FakeUpstream, pool: Backend) -> None:
    requests = play_in_turn((upstream, other), [*token_chunks()[:3], "reset"], complete(token_chunks()))
    list(pool.generate(GenerationRequest(CHAT)))
    seeds = [each.body["seed"] for each in requests]
    assert len(seeds) == 2 and len(set(seeds)) == 1


def test_a_tool_call_goes_on_under_its_id(upstream: FakeUpstream, other: FakeUpstream, pool: Backend) -> None:
    def call_chunk(id: str, arguments: str) -> bytes:
        function = {"name": "find", "arguments": arguments}
        return chat_chunk({"tool_calls": [{"index": 0, "id": id, "function": function}]})

    def call(id: str) -> list[Step]:
        return [call_chunk(id, '{"city":'), call_chunk(id, ' "Paris"}')]

    requests = play_in_turn(
        (upstream, other),
        [*token_chunks()[:2], *call("a")[:1], "reset"],
        complete([*token_chunks()[:2], *call("b")]),
    )
    request = GenerationRequest(CHAT, Sampling(greedy=True), tools=(TOOL,))
    calls = [event for event in pool.generate(request) if isinstance(event, CallDelta)]
    assert {each.id for each in calls} == {"a"} and len(requests) == 2
    assert "".join(each.arguments for each in calls) == '{"city": "Paris"}'
    assert [each.done for each in calls].count(True) == 1


def test_an_answer_that_would_go_on_with_other_tokens_is_broken(
    upstream: FakeUpstream, other: FakeUpstream, pool: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "RESUME_TIMEOUT_S", 0.3)
    play_in_turn(
        (upstream, other), [*token_chunks()[:3], "reset"], complete(token_chunks(((5, "The "), (9, "x"))))
    )
    texts = []
    with pytest.raises(Unavailable, match="other tokens"):
        for event in pool.generate(GenerationRequest(CHAT)):
            texts += [event.text] if isinstance(event, Token) else []
    assert texts == ["The ", "capital"]


def test_an_answer_waits_for_a_server_that_restarts(
    upstream: FakeUpstream, other: FakeUpstream, pool: Backend
) -> None:
    requests = play_in_turn(
        (upstream, other), [*token_chunks()[:3], "reset"], ["reset"], ["reset"], complete(token_chunks())
    )
    events = list(pool.generate(GenerationRequest(CHAT)))
    assert isinstance(events[-1], Finished) and events[-1].num_tokens == 4
    assert len(requests) >= 4


def test_servers_without_the_tokens_ids_do_not_resume(
    upstream: FakeUpstream, other: FakeUpstream, pool: Backend
) -> None:
    steps: list[Any] = [chat_chunk({"content": "The"}), "reset"]
    requests = play_in_turn((upstream, other), steps)
    with pytest.raises(Unavailable, match="broken"):
        list(pool.generate(GenerationRequest(CHAT)))
    assert len(requests) == 1


def test_requests_that_a_server_turns_away_go_to_another_one_whatever_the_budget(
    upstream: FakeUpstream, other: FakeUpstream, pool: Backend, loop: asyncio.AbstractEventLoop
) -> None:
    have_all_arrived = asyncio.Event()
    head = b"HTTP/1.1 503 X\r\nRetry-After: 5\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"
    upstream.reply = Reply([have_all_arrived, head, b"{}"], is_raw=True)
    other.reply = Reply([have_all_arrived, *complete(token_chunks())])
    streams = [pool.generate(GenerationRequest((Message("user", f"{n} " * 300),))) for n in range(30)]
    wait_until(lambda: len(upstream.bodies) + len(other.bodies) == len(streams))
    loop.call_soon_threadsafe(have_all_arrived.set)
    assert all(isinstance(list(stream)[-1], Finished) for stream in streams)
    assert len(upstream.bodies) > 5, "the requests came before the server was known to turn them away"


class RestartingHearth:
    """A Hearth that may restart with other settings unseen. num_questions: about its settings."""

    def __init__(self, upstream: FakeUpstream) -> None:
        self.start_id, self.dtype, self.num_questions = "1", "float32", 0
        self.steps: list[Step] = complete(token_chunks())
        upstream.reply = self.reply

    def reply(self, sent: Sent) -> Reply:
        if sent.path == "/":
            self.num_questions += 1
            return document({"name": "hearth", "start_id": self.start_id})
        if sent.method == "GET":
            return document({"data": [{"id": "up/model", "metadata": {"dtype": self.dtype}}]})
        start = {START_HEADER: self.start_id}
        if sent.path.endswith("/embeddings"):
            vector = [float(self.dtype == "float32")]
            return document({"data": [{"index": 0, "embedding": vector}]}, **start)
        return Reply(self.steps, headers=start)

    def restart(self, start_id: str, dtype: str = "float32") -> None:
        self.start_id, self.dtype = start_id, dtype


@pytest.fixture
def hearths(upstream: FakeUpstream, other: FakeUpstream, pool: Backend) -> list[RestartingHearth]:
    """The servers of the pool, which have answered."""
    hearths = [RestartingHearth(upstream), RestartingHearth(other)]
    assert members_of_answers(pool) == {"up/model-1", "up/model-2"}
    return hearths


def members_of_answers(pool: Backend, num_answers: int = 20) -> set[str]:
    """The servers that answered, each with the whole text."""
    event_lists = [list(pool.generate(GenerationRequest(CHAT))) for _ in range(num_answers)]
    ends = [events[-1] for events in event_lists]
    assert all(isinstance(end, Finished) and end.num_tokens == 4 for end in ends)
    return {str(events[0].member) for events in event_lists if isinstance(events[0], Started)}


def test_a_server_that_restarts_with_other_settings_answers_no_more(
    hearths: list[RestartingHearth], pool: Backend
) -> None:
    hearths[1].restart("2", dtype="bfloat16")
    assert members_of_answers(pool) == {"up/model-1"}


def test_a_server_that_restarts_with_other_settings_makes_no_embeddings(
    hearths: list[RestartingHearth], pool: Backend
) -> None:
    hearths[0].restart("2", dtype="bfloat16")
    vectors = [event.embedding.vector for event in pool.embed(["a"]) if isinstance(event, Embedded)]
    assert vectors == [(1.0,)]
    assert members_of_answers(pool, 3) == {"up/model-2"}


def test_a_server_without_embeddings_goes_on_answering(
    upstream: FakeUpstream, other: FakeUpstream, pool: Backend
) -> None:
    upstream.reply = other.reply = lambda sent: (
        document({"error": "no such route"}, 404)
        if sent.path.endswith("/embeddings")
        else Reply(complete(token_chunks()))
    )
    with pytest.raises(Unavailable, match="status 404"):
        list(pool.embed(["a"]))
    assert len(upstream.bodies) == len(other.bodies) == 1 and not pool.unavailable_reason()
    assert members_of_answers(pool) == {"up/model-1", "up/model-2"}


def test_an_answer_does_not_go_on_at_a_server_that_restarts_with_other_settings(
    hearths: list[RestartingHearth],
    pool: Backend,
    loop: asyncio.AbstractEventLoop,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attempts, "RESUME_TIMEOUT_S", 0.3)
    has_other_restarted = asyncio.Event()
    for hearth in hearths:
        hearth.steps = [*token_chunks()[:3], has_other_restarted, "reset"]
    stream = iter(pool.generate(GenerationRequest(CHAT)))
    first = next(stream)
    assert isinstance(first, Started) and first.member
    other = hearths[2 - int(first.member[-1])]
    other.restart("2", dtype="bfloat16")
    other.steps = complete(token_chunks())
    loop.call_soon_threadsafe(has_other_restarted.set)
    ids = []
    with pytest.raises(Unavailable, match=r"has restarted: .* DTYPE|broken"):
        for event in stream:
            ids += [event.id] if isinstance(event, Token) else []
    assert ids == [5, 6]


def test_servers_that_restart_with_the_same_settings_get_one_question_and_go_on(
    hearths: list[RestartingHearth], pool: Backend
) -> None:
    for hearth in hearths:
        hearth.restart("2")
        hearth.num_questions = 0
    assert members_of_answers(pool) == {"up/model-1", "up/model-2"}
    assert [hearth.num_questions for hearth in hearths] == [1, 1]


def test_servers_that_all_restart_with_the_same_new_settings_answer_again(
    hearths: list[RestartingHearth], pool: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    for hearth in hearths:
        hearth.restart("2", dtype="bfloat16")
    assert members_of_answers(pool, 1) < {"up/model-1", "up/model-2"}, "the other one is asked again later"


def test_an_answer_says_which_server_it_is_from(
    upstream: FakeUpstream, other: FakeUpstream, pool: Backend
) -> None:
    play_in_turn((upstream, other), complete(token_chunks()))
    names = {next(iter(pool.generate(GenerationRequest(CHAT)))) for _ in range(20)}
    assert {each.member for each in names if isinstance(each, Started)} == {"up/model-1", "up/model-2"}
