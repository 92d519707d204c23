"""Llama Stack's upstreams: what is sent, and the events that an answer becomes."""

from typing import Any

import pytest

from inference.errors import BadRequest, Unavailable
from inference.events import CallDelta, Event, Finished, Started, Token
from inference.sampling import Sampling
from inference.types import Constraint, GenerationRequest, Message, Tool, ToolCall
from tests.remote.broken_answers import break_off, fail
from tests.remote.conftest import CHAT, OpenModel
from tests.remote.fake_upstream import AdvancingLoop, FakeUpstream, Reply, event

CITY = {"type": "string", "enum": ["Rome", "Oslo"], "description": "a city"}
TOOL = Tool("weather", "The weather", {"type": "object", "properties": {"city": CITY}, "required": ["city"]})


def progress(text: str, kind: str = "progress", reason: str | None = None, **fields: Any) -> bytes:
    delta = {"type": "text", "text": text}
    return event({"event": {"event_type": kind, "delta": delta, "stop_reason": reason} | fields})


def call_delta(call: Any) -> bytes:
    delta = {"type": "tool_call", "tool_call": call, "parse_status": "in_progress"}
    return event({"event": {"event_type": "progress", "delta": delta}})


def answer_of(open_upstream: OpenModel, request: GenerationRequest) -> list[Event]:
    return list(open_upstream("llamastack").generate(request))


COMPLETE = progress("", "complete", "end_of_turn")


def test_an_answer_has_its_texts_and_logprobs(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    logprobs = [{"logprobs_by_token": {"Oslo": -3.0, "Rome": -0.1}}]
    upstream.reply = Reply([progress("", "start"), progress("Rome", logprobs=logprobs), COMPLETE])
    started, token, end = answer_of(open_upstream, GenerationRequest(CHAT, logprobs=2))
    assert isinstance(started, Started) and end == Finished(0, "stop", num_tokens=1)
    assert isinstance(token, Token) and (token.text, token.logprob) == ("Rome", -0.1)
    assert [each.text for each in token.top_logprobs] == ["Rome", "Oslo"]


@pytest.mark.parametrize(("counts", "end"), [((7, 3), (7, 3)), ((0, 0), (None, 1))])
def test_a_count_of_0_is_unknown(
    counts: tuple[int, int], end: tuple[int | None, int], upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    metrics = [
        {"metric": name, "value": value} for name, value in zip(names, (*counts, sum(counts)), strict=True)
    ]
    complete = {"event_type": "complete", "delta": {"type": "text", "text": ""}, "stop_reason": "end_of_turn"}
    upstream.reply = Reply(
        [progress("", "start"), progress("Rome"), event({"event": complete, "metrics": metrics})]
    )
    finished = answer_of(open_upstream, GenerationRequest(CHAT))[-1]
    assert isinstance(finished, Finished) and (finished.prompt_tokens, finished.num_tokens) == end


def test_a_completion_has_its_own_chunks(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    upstream.reply = Reply(
        [event({"delta": "a", "stop_reason": None}), event({"delta": "", "stop_reason": "out_of_tokens"})]
    )
    events = answer_of(open_upstream, GenerationRequest("Once"))
    assert upstream.sent[-1].path.endswith("/v1/inference/completion")
    assert upstream.bodies[-1]["content"] == "Once"
    assert events[-1] == Finished(0, "length", num_tokens=1)


def test_a_conversation_with_tools_is_sent_and_its_call_is_read(
    upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    call = {"call_id": "c1", "tool_name": "weather", "arguments": {"city": "Rome"}}
    upstream.reply = Reply([progress("", "start"), call_delta('{"ci'), call_delta(call), COMPLETE])
    past = (
        Message("assistant", "", tool_calls=(ToolCall("c0", "weather", "{}"),)),
        Message("tool", "sunny", tool_call_id="c0"),
    )
    request = GenerationRequest((*CHAT, *past), tools=(TOOL,), tool_choice="required")
    calls = [each for each in answer_of(open_upstream, request) if isinstance(each, CallDelta)]
    assert "".join(each.arguments for each in calls) == '{"city":"Rome"}'
    assert (calls[0].id, calls[0].name, calls[-1].done) == ("c1", "weather", True)
    body = upstream.bodies[-1]
    assert body["messages"][2] == {"role": "tool", "content": "sunny", "call_id": "c0"}
    assert body["messages"][1]["tool_calls"][0]["call_id"] == "c0"
    assert body["tool_config"] == {"tool_choice": "required"}
    city = body["tools"][0]["parameters"]["city"]
    assert city == {
        "param_type": "string",
        "description": 'a city {"enum":["Rome","Oslo"]}',
        "required": True,
    }


@pytest.mark.parametrize(
    ("sampling", "strategy"),
    [
        (Sampling(greedy=True), {"type": "greedy"}),
        (Sampling(temperature=0.5, top_p=0.9), {"type": "top_p", "temperature": 0.5, "top_p": 0.9}),
        (Sampling(top_k=4), {"type": "top_k", "top_k": 4}),
    ],
)
def test_sampling_is_sent_as_a_strategy(
    sampling: Sampling, strategy: dict[str, Any], upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    upstream.reply = Reply([progress("", "start"), COMPLETE])
    answer_of(open_upstream, GenerationRequest(CHAT, sampling, max_tokens=5, stop=("x",)))
    assert upstream.bodies[-1]["sampling_params"] == {"strategy": strategy, "max_tokens": 5, "stop": ["x"]}


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"sampling": Sampling(seed=3)}, "seed"),
        ({"sampling": Sampling(top_k=3, top_p=0.5)}, "top_k"),
        ({"constraint": Constraint("regex", "a")}, "response_format"),
        ({"ignore_eos": True}, "ignore_eos"),
    ],
)
def test_what_llama_stack_cannot_do_is_refused_by_name(
    options: dict[str, Any], field: str, open_upstream: OpenModel
) -> None:
    with pytest.raises(BadRequest) as refusal:
        answer_of(open_upstream, GenerationRequest(CHAT, **options))
    assert refusal.value.field == field and "Llama Stack" in refusal.value.message


@pytest.mark.parametrize("rest", [[], [event({"error": {"message": "boom"}})], [event({"event": 1})]])
def test_an_answer_that_breaks_off_is_never_whole(
    rest: list[bytes], upstream: FakeUpstream, open_upstream: OpenModel, loop: AdvancingLoop
) -> None:
    upstream.reply, go_on = break_off([progress("", "start"), progress("a")], rest, loop)
    failure, events = fail(open_upstream("llamastack").generate(GenerationRequest(CHAT)), go_on)
    assert isinstance(failure, Unavailable) and isinstance(events[-1], Token)


def test_tools_and_arguments_of_any_form_are_sent(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    """A client may send them: they are no failure of this server."""
    deep = "[" * 100_000
    call = Message("assistant", "", tool_calls=(ToolCall("c", "f", deep),))
    odd = {"required": 5, "properties": {"a": {"type": ["string"], "description": 7}}}
    tools = (Tool("f", "", odd), Tool("g", "", {"properties": [1]}))
    upstream.reply = Reply([progress("a"), COMPLETE])
    answer_of(open_upstream, GenerationRequest((*CHAT, call), tools=tools))
    body = upstream.bodies[-1]
    assert body["messages"][1]["tool_calls"][0]["arguments"] == deep
    assert [tool["parameters"].keys() for tool in body["tools"]] == [{"a"}, set()]
