"""The reasoning in the answers of OpenAI's upstreams, and requests that leave it in the text."""

from typing import Any

import pytest

from inference.errors import BadRequest, ServerError
from inference.events import Event, Finished, Token
from inference.types import GenerationRequest, Message, TemplateOptions
from tests.remote.conftest import CHAT, OpenModel
from tests.remote.fake_upstream import FakeUpstream, Reply, event
from tests.remote.openai_chunks import DONE, chat_chunk, usage_chunk, whole_answer

REQUEST = GenerationRequest(CHAT, separate_reasoning=True)
END = chat_chunk({}, reason="stop")


def texts_of(events: list[Event]) -> list[tuple[str, str]]:
    """(reasoning, text) of each token"""
    return [(event.reasoning, event.text) for event in events if isinstance(event, Token)]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_passed_on_apart_from_the_text(
    field: str, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    deltas = ({field: "Let"}, {field: " me.", "content": None}, {field: None, "content": "4"})
    upstream.reply = Reply([*map(chat_chunk, deltas), END, DONE])
    *events, end = open_upstream().generate(REQUEST)
    assert texts_of(events) == [("Let", ""), (" me.", ""), ("", "4")]
    assert isinstance(end, Finished)
    assert (end.num_tokens, end.num_reasoning_tokens) == (3, 2)


def test_a_delta_may_have_reasoning_and_text(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    both = chat_chunk({"reasoning_content": " me.", "reasoning": " me.", "content": "4"}, token_ids=[3, 4])
    upstream.reply = Reply([both, END, DONE])
    assert texts_of(list(open_upstream().generate(REQUEST))) == [(" me.", ""), ("", "4")]


def test_the_upstreams_count_of_reasoning_tokens_counts(
    upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 9,
        "completion_tokens_details": {"reasoning_tokens": 7},
    }
    chunks = [chat_chunk({"reasoning": "Let me."}), chat_chunk({"content": "4"}), END]
    upstream.reply = Reply([*chunks, event({"choices": [], "usage": usage}), DONE])
    *_, end = open_upstream().generate(REQUEST)
    assert isinstance(end, Finished)
    assert (end.num_tokens, end.num_reasoning_tokens) == (9, 7)


def test_reasoning_that_is_no_text_ends_the_answer(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    upstream.reply = Reply([chat_chunk({"reasoning": ["a"]}), END, usage_chunk(5, 1), DONE])
    with pytest.raises(ServerError):
        list(open_upstream().generate(REQUEST))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("hearth", {"reasoning_format": "none"}),
        ("llama.cpp", {"reasoning_format": "none"}),
        ("sglang", {"separate_reasoning": False}),
        ("vllm", {}),
        ("compatible", {}),
    ],
)
@pytest.mark.parametrize("separates", [True, False])
def test_a_request_says_whether_the_text_has_the_reasoning(
    separates: bool, kind: str, fields: dict[str, Any], upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    upstream.reply = whole_answer("yes")
    list(open_upstream(detected=kind).generate(GenerationRequest(CHAT, separate_reasoning=separates)))
    names = {"reasoning_format", "separate_reasoning"}
    sent = {name: value for name, value in upstream.bodies[-1].items() if name in names}
    assert sent == ({} if separates else fields)


@pytest.mark.parametrize(
    ("kind", "has_reasoning"),
    [("vllm", True), ("sglang", True), ("hearth", True), ("llama.cpp", True), ("compatible", False)],
)
def test_the_reasoning_of_earlier_answers_is_sent_to_servers_that_take_it(
    kind: str, has_reasoning: bool, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    messages = [*CHAT, Message("assistant", "4", reasoning="Two and two."), Message("user", "Sure?")]
    upstream.reply = whole_answer("yes")
    list(open_upstream(detected=kind).generate(GenerationRequest(messages)))
    sent = upstream.bodies[-1]["messages"][-2]
    expected = dict.fromkeys(("reasoning_content", "reasoning"), "Two and two.") if has_reasoning else {}
    assert sent == {"role": "assistant", "content": "4", **expected}


@pytest.mark.parametrize("effort", ["none", "high"])
@pytest.mark.parametrize(
    ("kind", "has_template"),
    [("compatible", False), ("vllm", True), ("sglang", True), ("llama.cpp", True)],
)
def test_the_effort_is_a_field_of_its_own_and_a_variable_of_the_template(
    kind: str, has_template: bool, effort: str, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    upstream.reply = whole_answer("yes")
    template = TemplateOptions(reasoning_effort=effort)
    list(open_upstream(detected=kind).generate(GenerationRequest(CHAT, template=template)))
    names = ("reasoning_effort", "chat_template_kwargs")
    sent = {name: upstream.bodies[-1][name] for name in names if name in upstream.bodies[-1]}
    switches = {"enable_thinking": effort != "none", "thinking": effort != "none"}
    variables = {"chat_template_kwargs": {"reasoning_effort": effort, **switches}} if has_template else {}
    field = {} if has_template and effort == "none" else {"reasoning_effort": effort}
    assert sent == field | variables


def test_an_effort_is_refused_by_its_name(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    template = TemplateOptions(reasoning_effort="low")
    with pytest.raises(BadRequest, match="is not supported by the transformers server") as caught:
        open_upstream(detected="transformers").generate(GenerationRequest(CHAT, template=template))
    assert caught.value.field == "reasoning_effort"
