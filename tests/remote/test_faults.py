"""What goes wrong at an upstream: each fault is the right error, and never a whole answer.

The faults that every kind of upstream may have are in test_faults_of_kinds.py.
"""

import asyncio
from collections.abc import Iterable
from itertools import islice
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from inference.errors import BadRequest, NotImplementedHere, Overloaded, ServerError, TooLong, Unavailable
from inference.events import Event, Finished, Token
from inference.remote import attempts, relay
from inference.types import GenerationRequest
from tests.fakes.stepped_clock import SteppedClock
from tests.remote.broken_answers import break_off, fail
from tests.remote.conftest import CHAT, OpenModel
from tests.remote.fake_upstream import AdvancingLoop, FakeUpstream, Reply, document, event
from tests.remote.openai_chunks import DONE, chat_chunk, say, usage_chunk, whole_answer

KEY = "sk-very-secret-key-123"
REQUEST = GenerationRequest(CHAT)
RETRIED = 3  # attempts
DEEP = b"[" * 100_000 + b"]" * 100_000
DEADLINE_S = 30.0
LIMITED = GenerationRequest(CHAT, deadline=DEADLINE_S)


def error(status: int, message: str = "no", **headers: str) -> Reply:
    return document({"error": {"message": message}}, status, **headers)


def logprobs_with_top(logprob: Any) -> dict[str, Any]:
    """A token's logprobs with one alternative."""
    return {"token": "a", "logprob": -1.0, "top_logprobs": [{"token": "a", "logprob": logprob}]}


@pytest.mark.parametrize(
    ("reply", "kind", "attempts"),
    [
        (error(422), BadRequest, 1),
        (error(400, "maximum context length is 8 tokens, you sent 9"), TooLong, 1),
        (
            error(400, "The input (9 tokens) is longer than the model's context length (8 tokens)."),
            TooLong,
            1,
        ),
        (error(403), Unavailable, 1),
        (error(503), Unavailable, RETRIED),
        (error(418), Unavailable, 1),
        (Reply([b"{"], content_type="application/json"), Unavailable, RETRIED),
        (Reply([event([1])]), Unavailable, RETRIED),
        (Reply([event({"error": {"message": "out of memory"}})]), Unavailable, RETRIED),
        (Reply([b"event: error\ndata: {}\n\n"]), Unavailable, RETRIED),
        (Reply([(b":" + b"x" * 998 + b"\n") * 1200, *say("a")]), Unavailable, RETRIED),
        (Reply([event({"choices": [{"index": 7, "delta": {"content": "a"}}]})]), Unavailable, RETRIED),
        (Reply([DEEP], content_type="application/json"), Unavailable, RETRIED),
        (Reply([DEEP], 400, "application/json"), BadRequest, 1),
        (Reply([chat_chunk({"content": 5})]), Unavailable, RETRIED),
        (Reply([chat_chunk({"content": "a"}, token_ids=["x"])]), Unavailable, RETRIED),
        (Reply([chat_chunk({"content": "a"}, prompt_token_ids=[-1])]), Unavailable, RETRIED),
        (
            Reply([chat_chunk({"tool_calls": [{"function": {"name": 5, "arguments": ""}}]})]),
            Unavailable,
            RETRIED,
        ),
        (
            Reply([chat_chunk({"content": "a"}, logprobs={"content": [logprobs_with_top("high")]})]),
            Unavailable,
            RETRIED,
        ),
        (Reply([event({"choices": [], "usage": {"prompt_tokens": "5"}})]), Unavailable, RETRIED),
    ],
)
def test_a_fault_of_openais_form_before_the_first_event_is_an_error_of_its_kind(
    reply: Reply, kind: type[ServerError], attempts: int, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    upstream.reply = reply
    failure, events = fail(open_upstream().generate(REQUEST))
    assert type(failure) is kind and not events
    assert len(upstream.bodies) in (attempts, 2 * attempts), "a reset connection is repeated once, uncounted"


@pytest.mark.parametrize(
    "rest",
    [
        [DONE],
        [event({"error": "overloaded"})],
        [chat_chunk({}, reason="error")],
        [chat_chunk({}, reason="abort")],
        [
            chat_chunk({"tool_calls": [{"function": {"name": "f", "arguments": "[1]"}}]}),
            chat_chunk({}, reason="stop"),
        ],
        [
            chat_chunk({"tool_calls": [{"function": {"name": "f", "arguments": '{"a":' + DEEP.decode()}}]}),
            chat_chunk({}, reason="stop"),
        ],
        [chat_chunk({}, reason="stop", stop_reason=["."])],
        [*say("a"), usage_chunk(-1, 1)],
        [*say("a"), usage_chunk(1, 10**18)],
        [event({"choices": [], "usage": {"completion_tokens": "many"}})],
    ],
)
def test_an_answer_that_breaks_off_is_never_whole_and_never_repeated(
    rest: list[Any], upstream: FakeUpstream, open_upstream: OpenModel, loop: AdvancingLoop
) -> None:
    upstream.reply, go_on = break_off([chat_chunk({"content": "The capital"})], rest, loop)
    failure, events = fail(open_upstream().generate(REQUEST), go_on)
    assert isinstance(failure, Unavailable) and not any(isinstance(each, Finished) for each in events)
    assert len(upstream.bodies) == 1


def test_a_first_event_that_is_late(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    upstream.reply = Reply(["silence"])
    failure, _ = fail(open_upstream(timeouts={"first": 7.5}).generate(REQUEST))
    assert "did not answer in 7.5 s" in failure.message and len(upstream.bodies) == RETRIED


def test_a_server_that_is_not_there_is_named_without_its_address(open_upstream: OpenModel) -> None:
    failure, _ = fail(open_upstream(inference_server="vllm_chat:127.0.0.1:9").generate(REQUEST))
    assert failure.message == "the server behind up/model cannot be reached: Connection refused"


def test_a_second_attempt_answers(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    upstream.reply = lambda sent: error(503) if len(upstream.bodies) == 1 else whole_answer("yes")
    events = list(open_upstream().generate(REQUEST))
    assert [each.text for each in events if isinstance(each, Token)] == ["yes"]


def test_an_overloaded_upstream_says_when_to_come_back(
    upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    upstream.reply = error(429, **{"Retry-After": "30"})
    failure, _ = fail(open_upstream().generate(REQUEST))
    assert isinstance(failure, Overloaded) and failure.retry_after == 30 and len(upstream.bodies) == 1


def test_retries_have_a_budget(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    upstream.reply = error(503)
    backend = open_upstream()
    for _ in range(5):
        with pytest.raises(Unavailable):
            list(backend.generate(REQUEST))
    assert len(upstream.bodies) <= 5 + 3 + 1, "3, and a fifth of the requests"


def test_no_redirect_is_followed_and_no_key_leaves(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    upstream.reply = Reply([], 307, headers={"Location": f"{upstream.url}/elsewhere"})
    failure, _ = fail(open_upstream(key=KEY).generate(REQUEST))
    assert isinstance(failure, Unavailable) and "redirect" in failure.message
    assert [each.path for each in upstream.sent] == ["/v1/chat/completions"]
    assert upstream.sent[0].headers["authorization"] == f"Bearer {KEY}"


def test_an_upstreams_message_has_no_key_and_no_address(
    upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    upstream.reply = error(400, f"bad key {KEY} at http://10.0.0.1:8000/v1\x1b[31m {'x' * 500}")
    failure, _ = fail(open_upstream(key=KEY).generate(REQUEST))
    assert KEY not in failure.message and "10.0.0.1" not in failure.message and "\x1b" not in failure.message
    assert len(failure.message) < 400


def test_a_deadline_ends_the_answer_with_what_there_is(
    upstream: FakeUpstream, open_upstream: OpenModel, loop: AdvancingLoop
) -> None:
    upstream.reply = Reply([chat_chunk({"content": "a"}), "wait"])
    stream = open_upstream().generate(LIMITED)
    assert text_of(islice(stream, 2)) == "a"
    loop.advance(DEADLINE_S)
    assert list(stream) == [Finished(0, "deadline", num_tokens=1)]


def test_a_hearth_ends_its_answer_at_the_deadline_itself(
    upstream: FakeUpstream, open_upstream: OpenModel, loop: AdvancingLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "DEADLINE_GRACE_S", 20.0)
    end, is_over = (
        chat_chunk({"content": "held back"}, reason="length", stop_reason="timeout"),
        asyncio.Event(),
    )
    upstream.reply = Reply([chat_chunk({"content": "a"}), is_over, end, DONE])
    stream = open_upstream("hearth").generate(LIMITED)
    assert text_of(islice(stream, 2)) == "a"
    assert 0 < upstream.bodies[0]["max_time"] <= DEADLINE_S
    loop.advance(DEADLINE_S)
    loop.call_soon_threadsafe(is_over.set)
    *events, last = stream
    assert text_of(events) == "held back" and last == Finished(0, "deadline", num_tokens=2)


def test_a_hearth_that_does_not_end_its_answer_is_cut(
    upstream: FakeUpstream, open_upstream: OpenModel, loop: AdvancingLoop
) -> None:
    upstream.reply = Reply([chat_chunk({"content": "a"}), "wait"])
    stream = open_upstream("hearth").generate(LIMITED)
    assert text_of(islice(stream, 2)) == "a"
    loop.advance(DEADLINE_S + attempts.DEADLINE_GRACE_S)
    assert list(stream) == [Finished(0, "deadline", num_tokens=1)]


def text_of(events: Iterable[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Token))


def test_more_requests_than_max_concurrent_are_refused(
    upstream: FakeUpstream, open_upstream: OpenModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SteppedClock()
    for module in ("inference.remote.running_answers", "inference.drain_rate"):
        monkeypatch.setattr(f"{module}.time", clock)
    upstream.reply = Reply([chat_chunk({"content": "a"}), "wait"])
    backend = open_upstream(max_concurrent=1)
    stream = backend.generate(REQUEST)
    assert text_of(islice(stream, 2)) == "a"
    clock.now = 3.0
    with pytest.raises(Overloaded) as refused:
        backend.generate(REQUEST)
    assert refused.value.retry_after == 3, "as long again as the answer has taken"
    assert backend.seconds_until_end() == 3.0, "the permits of all requests return with the answers, too"
    stream.close()


def test_three_failures_make_the_model_unavailable_until_an_answer(
    upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    backend = open_upstream()
    upstream.reply = error(401)
    for _ in range(3):
        with pytest.raises(Unavailable):
            list(backend.generate(REQUEST))
    assert "refuses this server" in backend.unavailable_reason()
    upstream.reply = whole_answer("yes")
    list(backend.generate(REQUEST))
    assert not backend.unavailable_reason()


def test_an_answer_without_end_is_cut(
    upstream: FakeUpstream, open_upstream: OpenModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "MAX_STREAM_BYTES", 1 << 20)
    upstream.reply = Reply([chat_chunk({"content": "a" * 10_000})] * 1000)
    failure, events = fail(open_upstream().generate(REQUEST))
    assert "more than 1 MiB" in failure.message
    assert 50 < len(events) < 110


def test_outcomes_are_counted(
    upstream: FakeUpstream, open_upstream: OpenModel, registry: CollectorRegistry
) -> None:
    upstream.reply = lambda sent: error(500) if len(upstream.bodies) == 1 else whole_answer("a", "b")
    list(open_upstream().generate(REQUEST))
    labels = {"model": "up/model"}
    assert registry.get_sample_value("hearth_upstream_requests_total", labels | {"outcome": "ok"}) == 1
    assert registry.get_sample_value("hearth_upstream_retries_total", labels | {"reason": "failed"}) == 1
    assert registry.get_sample_value("hearth_upstream_tokens_total", labels) == 2
    assert registry.get_sample_value("hearth_upstream_inflight", labels) == 0


def test_an_upstream_without_a_tokenizer_says_so(open_upstream: OpenModel) -> None:
    with pytest.raises(NotImplementedHere, match="up/model"):
        open_upstream("openai_chat:None").tokenize(REQUEST)
