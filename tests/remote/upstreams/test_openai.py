"""OpenAI's upstreams: what is sent for a request, and the events that an answer becomes."""

import json
from dataclasses import replace
from typing import Any

import pytest

from inference.backend import Stream
from inference.errors import BadRequest, ServerError, TooLarge
from inference.events import CallDelta, Event, Finished, PromptToken, Started, Token, TopLogprob
from inference.remote import http_client
from inference.remote.http_client import HttpClient
from inference.remote.upstreams.flavours import FLAVOURS
from inference.remote.upstreams.openai import OpenAIApi
from inference.sampling import Sampling
from inference.types import Constraint, GenerationRequest, Message, TemplateOptions, Tool, ToolCall
from settings.model_list import parse_entry
from settings.remote_model import RemoteModel
from tests.remote.conftest import CHAT, OpenModel
from tests.remote.fake_upstream import FakeUpstream, Reply, document, event
from tests.remote.openai_chunks import DONE, chat_chunk, say, text_chunk, usage_chunk, whole_answer

TOOL = Tool("weather", "The weather", {"type": "object", "properties": {"city": {"type": "string"}}})


def text_of(events: list[Event]) -> str:
    return "".join(each.text for each in events if isinstance(each, Token | Finished))


def read(stream: Stream) -> list[Event]:
    return list(stream)


def body_for(
    request: GenerationRequest, upstream: FakeUpstream, open_upstream: OpenModel, **keys: Any
) -> Any:
    """The body that a request sends, without the fields that every body has."""
    upstream.reply = whole_answer("yes")
    kind = keys.pop("kind", "vllm_chat")
    read(open_upstream(kind, **keys).generate(request))
    every = {"model", "stream", "stream_options", "messages", "prompt", "return_token_ids"}
    assert upstream.bodies[-1]["stream"] is True, "always streamed upstream"
    return {name: value for name, value in upstream.bodies[-1].items() if name not in every}


def test_an_answer_has_its_texts_and_the_counts_of_its_usage(
    upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    upstream.reply = Reply([*say("The", " capital"), usage_chunk(21, 2, cached=16), DONE])
    events = read(open_upstream().generate(GenerationRequest(CHAT)))
    assert events == [
        Started(0, None, 0, member="up/model"),
        Token(0, -1, "The", spelling="The"),
        Token(0, -1, " capital", spelling=" capital"),
        Finished(0, "stop", num_tokens=2, prompt_tokens=21, cached_tokens=16),
    ]


@pytest.mark.parametrize("num_requests", [1, 3])
@pytest.mark.parametrize("option", ["stream_options", "return_token_ids"])
def test_a_server_that_refuses_a_dispensable_option_gets_requests_without_it(
    option: str, num_requests: int, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    refusal = document({"error": {"message": f"Unrecognized request argument: {option}"}}, 400)
    reply = Reply([*say("The", " capital"), DONE])
    upstream.reply = lambda sent: refusal if option in sent.body else reply
    backend = open_upstream()
    streams = [backend.generate(GenerationRequest(CHAT)) for _ in range(num_requests)]
    for events in map(read, streams):
        assert isinstance(events[-1], Finished) and events[-1].num_tokens == 2, "tokens are counted here"
    read(backend.generate(GenerationRequest(CHAT)))
    assert option not in upstream.bodies[-1] and len(upstream.bodies) == 2 * num_requests + 1


def test_a_conversation_is_sent_as_messages(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    call = ToolCall("call_1", "weather", '{"city": "Rome"}')
    messages = (
        Message("system", "Be brief."),
        Message("user", "Rome?", name="ada"),
        Message("assistant", "", tool_calls=(call,)),
        Message("tool", "sunny", tool_call_id="call_1"),
    )
    upstream.reply = whole_answer("yes")
    read(open_upstream().generate(GenerationRequest(messages)))
    function = {"name": "weather", "arguments": '{"city": "Rome"}'}
    assert upstream.sent[-1].path == "/v1/chat/completions"
    assert upstream.bodies[-1]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Rome?", "name": "ada"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        },
        {"role": "tool", "content": "sunny", "tool_call_id": "call_1"},
    ]


@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        (GenerationRequest(CHAT), {"temperature": 1.0, "top_p": 1.0}),
        (GenerationRequest(CHAT, Sampling(greedy=True)), {"temperature": 0, "top_p": 1}),
        (
            GenerationRequest(CHAT, Sampling(temperature=0.5, top_p=0.9, top_k=4, seed=7), max_tokens=9, n=2),
            {"temperature": 0.5, "top_p": 0.9, "top_k": 4, "seed": 7, "max_tokens": 9, "n": 2},
        ),
        (
            GenerationRequest(CHAT, Sampling(repetition_penalty=1.2, logit_bias={5: 2.0}), stop=("a", "b")),
            {
                "temperature": 1.0,
                "top_p": 1.0,
                "repetition_penalty": 1.2,
                "logit_bias": {"5": 2.0},
                "stop": ["a", "b"],
            },
        ),
        (
            GenerationRequest(CHAT, logprobs=2, constraint=Constraint("regex", "[a-z]+"), ignore_eos=True),
            {
                "temperature": 1.0,
                "top_p": 1.0,
                "logprobs": True,
                "top_logprobs": 2,
                "structured_outputs": {"regex": "[a-z]+"},
                "ignore_eos": True,
            },
        ),
        (
            GenerationRequest(
                CHAT, template=TemplateOptions(False, True, {"enable_thinking": False}), truncate=64
            ),
            {
                "temperature": 1.0,
                "top_p": 1.0,
                "add_generation_prompt": False,
                "continue_final_message": True,
                "chat_template_kwargs": {"enable_thinking": False},
                "truncate_prompt_tokens": 64,
            },
        ),
    ],
)
def test_the_options_of_a_request_are_sent_to_vllm(
    request_: GenerationRequest, fields: dict[str, Any], upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    if request_.n > 1:
        upstream.reply = Reply([*say("a"), chat_chunk({"content": "b"}, 1), chat_chunk({}, 1, "stop"), DONE])
        read(open_upstream().generate(request_))
        assert fields.items() <= upstream.bodies[-1].items()
    else:
        assert body_for(request_, upstream, open_upstream) == fields


def test_tools_are_sent_with_their_choice(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    request = GenerationRequest(CHAT, tools=(TOOL,), tool_choice="weather", parallel_calls=False)
    body = body_for(request, upstream, open_upstream)
    assert body["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    assert body["tools"][0]["function"]["parameters"] == TOOL.parameters
    assert body["parallel_tool_calls"] is False


def test_the_logprobs_of_a_prompt_come_with_a_whole_answer(
    upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    likely = {"logprob": -0.5, "rank": 1, "decoded_token": " cat"}
    own = {"logprob": -3.0, "rank": 9, "decoded_token": " capital"}
    choice = {"index": 0, "text": " of", "finish_reason": "length", "prompt_token_ids": [5, 6]}
    upstream.reply = document({"choices": [choice | {"prompt_logprobs": [None, {"6": own, "7": likely}]}]})
    request = GenerationRequest("The capital", max_tokens=1, prompt_logprobs=1)
    started, *_ = read(open_upstream("vllm").generate(request))
    assert isinstance(started, Started) and started.prompt_token_ids == (5, 6)
    top = (TopLogprob(7, " cat", -0.5),)
    assert started.prompt_logprobs == (PromptToken(5, "", None), PromptToken(6, " capital", -3.0, 9, top))
    body = upstream.bodies[-1]
    assert (body["stream"], body["prompt_logprobs"], "stream_options" in body) == (False, 1, False)


@pytest.mark.parametrize("logprobs", [[None], [None, {"6": {"logprob": 1}}], [None, {"6": 5}], "ab"])
def test_logprobs_of_a_prompt_of_another_form_are_a_broken_answer(
    logprobs: Any, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    choice = {"index": 0, "text": " of", "finish_reason": "length", "prompt_token_ids": [5, 6]}
    upstream.reply = document({"choices": [choice | {"prompt_logprobs": logprobs}]})
    with pytest.raises(ServerError, match="wrong form"):
        read(open_upstream("vllm").generate(GenerationRequest("The capital", prompt_logprobs=1)))


def test_text_and_token_ids_go_to_completions(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    upstream.reply = Reply([text_chunk("yes", token_ids=[7]), text_chunk("", reason="stop"), DONE])
    backend = open_upstream("vllm")
    for prompt in ("Once", [1, 2]):
        events = read(backend.generate(GenerationRequest(prompt)))
        assert (upstream.sent[-1].path, upstream.bodies[-1]["prompt"]) == ("/v1/completions", prompt)
        assert upstream.bodies[-1]["max_tokens"] == 1024, "the upstream's default of 16 is never meant"
        assert Token(0, 7, "yes", spelling="yes") in events


def test_azure_gets_its_version_and_its_own_names() -> None:
    entry = {"base_model": "gpt", "inference_server": "openai_azure_chat:dep:me.openai.azure.com:None:KEY"}
    model = parse_entry(1, entry)
    assert isinstance(model, RemoteModel)
    (call,) = OpenAIApi(model, FLAVOURS["azure"], "gpt").calls(GenerationRequest(CHAT, max_tokens=3))
    version = "api-version=2024-07-01-preview"
    url = f"https://me.openai.azure.com/openai/deployments/dep/chat/completions?{version}"
    assert HttpClient(model).url(call.path) == url and model.server.headers == {"api-key": "KEY"}
    assert json.loads(call.body)["max_completion_tokens"] == 3


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"sampling": Sampling(top_k=5)}, "top_k"),
        ({"sampling": Sampling(repetition_penalty=1.1)}, "repetition_penalty"),
        ({"min_tokens": 4}, "min_tokens"),
        ({"truncate": 9}, "truncate_prompt_tokens"),
        ({"constraint": Constraint("regex", "a", "guided_regex")}, "guided_regex"),
        ({"prompt_logprobs": 1}, "prompt_logprobs"),
    ],
)
def test_what_an_openai_server_cannot_do_is_refused_by_name(
    options: dict[str, Any], field: str, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    with pytest.raises(BadRequest) as refusal:
        open_upstream("openai_chat:None").generate(GenerationRequest(CHAT, **options))
    assert refusal.value.field == field and "up/model" in refusal.value.message
    assert not upstream.sent, "nothing is sent"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"stop": ("END",), "include_stop_str_in_output": True}, "one END"),
        ({"stop": ("END", "a", "b", "c", "d")}, "one "),
    ],
)
def test_stop_strings_that_the_server_has_no_place_for_end_the_answer_here(
    options: dict[str, Any], text: str, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    chunks = [chat_chunk({"content": content}) for content in ("one E", "ND two")]
    upstream.reply = Reply([*chunks, "wait"])
    events = read(
        open_upstream("openai_chat:None", detected="azure").generate(GenerationRequest(CHAT, **options))
    )
    assert text_of(events) == text and "stop" not in upstream.bodies[-1]
    end = events[-1]
    assert isinstance(end, Finished) and (end.finish_reason, end.stop) == ("stop", "END")


def test_an_option_about_stop_strings_needs_some(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    request = GenerationRequest(CHAT, include_stop_str_in_output=True)
    assert "stop" not in body_for(request, upstream, open_upstream, kind="openai_chat:None")


@pytest.mark.parametrize(
    ("kind", "constraint", "fields"),
    [
        ("vllm before 0.11", Constraint("choice", ("a", "b")), {"guided_choice": ["a", "b"]}),
        ("sglang", Constraint("regex", "a"), {"regex": "a"}),
        ("sglang", Constraint("grammar", "root ::= a"), {"ebnf": "root ::= a"}),
    ],
)
def test_each_kind_of_server_has_its_own_fields_of_constraints(
    kind: str, constraint: Constraint, fields: Any, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    request = GenerationRequest(CHAT, Sampling(greedy=True), constraint=constraint, separate_reasoning=True)
    body = body_for(request, upstream, open_upstream, detected=kind)
    assert body == {"temperature": 0, "top_p": 1, **fields}


@pytest.mark.parametrize("options", [{"bad_words": ("a",)}, {"constraint": Constraint("choice", ("a",))}])
def test_what_sglang_ignores_is_refused(options: dict[str, Any], open_upstream: OpenModel) -> None:
    with pytest.raises(BadRequest, match="SGLang"):
        open_upstream(detected="sglang").generate(GenerationRequest(CHAT, **options))


def test_a_limit_of_answers_is_sent_in_place_of_a_higher_one(
    upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    for context, limit in ((None, 70), (60, 60)):
        request = GenerationRequest(CHAT, max_tokens=80)
        body = body_for(request, upstream, open_upstream, max_answer_tokens=70, max_seq_len=context)
        assert body["max_tokens"] == limit


def test_a_field_in_drop_is_left_out(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    request = GenerationRequest(CHAT, Sampling(top_k=5))
    body = body_for(request, upstream, open_upstream, kind="openai_chat:None", drop=["top_k"])
    assert body == {"temperature": 1.0, "top_p": 1.0}


def test_extra_fields_are_added_to_every_body(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    body = body_for(GenerationRequest(CHAT), upstream, open_upstream, extra={"provider": {"order": ["a"]}})
    assert body["provider"] == {"order": ["a"]}


def test_a_chat_for_a_server_that_completes_text_is_refused(open_upstream: OpenModel) -> None:
    with pytest.raises(BadRequest, match="messages are not supported by the vLLM server behind up/model"):
        open_upstream("vllm").generate(GenerationRequest(CHAT))


def test_logprobs_are_those_of_each_token(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    entries = [
        {
            "token": "Pa",
            "logprob": -0.5,
            "bytes": [80, 97],
            "top_logprobs": [{"token": "Pa", "logprob": -0.5}],
        },
        {"token": "ris", "logprob": -9999.0, "bytes": None, "top_logprobs": []},
    ]
    chunk = chat_chunk({"content": "Paris"}, logprobs={"content": entries})
    upstream.reply = Reply([chunk, chat_chunk({}, reason="stop"), DONE])
    tokens = [
        each
        for each in read(open_upstream().generate(GenerationRequest(CHAT, logprobs=1)))
        if isinstance(each, Token)
    ]
    assert [(each.text, each.logprob) for each in tokens] == [("Pa", -0.5), ("ris", None)]
    assert tokens[0].top_logprobs[0].text == "Pa"


def test_a_text_that_its_tokens_do_not_join_to_is_the_last_tokens(
    upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    entries = [{"token": name, "logprob": -1.0} for name in ("\\xe2", "\\x82")]
    chunk = chat_chunk({"content": "€"}, logprobs={"content": entries})
    upstream.reply = Reply([chunk, chat_chunk({}, reason="stop"), DONE])
    events = read(open_upstream().generate(GenerationRequest(CHAT, logprobs=0)))
    assert text_of(events) == "€" and len([e for e in events if isinstance(e, Token)]) == 2


def call_chunk(number: int, arguments: str, name: str = "", id: str = "") -> bytes:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return chat_chunk({"tool_calls": [{"index": number, "function": function, **({"id": id} if id else {})}]})


def test_tool_calls_arrive_with_their_arguments(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    upstream.reply = Reply(
        [
            call_chunk(0, "", "weather", "call_a"),
            call_chunk(0, '{"city": '),
            call_chunk(0, '"Rome"}'),
            call_chunk(1, "{}", "weather"),
            chat_chunk({}, reason="tool_calls"),
            DONE,
        ]
    )
    events = read(open_upstream().generate(GenerationRequest(CHAT, tools=(TOOL,))))
    calls = [each for each in events if isinstance(each, CallDelta)]
    first = [each for each in calls if each.call_index == 0]
    assert "".join(each.arguments for each in first) == '{"city": "Rome"}'
    assert {each.id for each in first} == {"call_a"} and [each.done for each in first][-1]
    second = [each for each in calls if each.call_index == 1]
    assert second[0].id.startswith("call_") and second[-1].done
    assert isinstance(events[-1], Finished) and events[-1].finish_reason == "stop"


@pytest.mark.parametrize(
    ("reason", "finish_reason"),
    [("stop", "stop"), ("length", "length"), ("content_filter", "filtered"), ("new_reason", "stop")],
)
def test_every_finish_reason_is_understood(
    reason: str, finish_reason: str, upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    upstream.reply = Reply([chat_chunk({"content": "a"}, reason=reason), DONE])
    end = read(open_upstream().generate(GenerationRequest(CHAT)))[-1]
    assert isinstance(end, Finished) and end.finish_reason == finish_reason


def test_tokens_behind_a_finish_reason_are_ignored(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    more = [chat_chunk({"content": "more"}), chat_chunk({}, reason="length")]
    upstream.reply = Reply([*say("yes"), *more, DONE, b"data: rubbish\n\n"])
    events = read(open_upstream().generate(GenerationRequest(CHAT)))
    assert text_of(events) == "yes" and replace(events[-1], num_tokens=0) == Finished(0, "stop")


def test_an_unstreamed_answer_is_accepted(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
    upstream.reply = document({"choices": [choice], "usage": {"prompt_tokens": 4, "completion_tokens": 1}})
    events = read(open_upstream().generate(GenerationRequest(CHAT)))
    assert text_of(events) == "yes" and isinstance(events[-1], Finished) and events[-1].prompt_tokens == 4


def test_embeddings_keep_the_order_of_the_inputs(upstream: FakeUpstream, open_upstream: OpenModel) -> None:
    data = [{"index": 1, "embedding": [3, 4]}, {"index": 0, "embedding": [1, 2]}]
    upstream.reply = document({"data": data, "usage": {"prompt_tokens": 6}})
    embedded = read(open_upstream().embed(["a", "b"]))
    assert [each.embedding.vector for each in embedded] == [(1.0, 2.0), (3.0, 4.0)]


def test_an_answer_that_is_too_large_is_refused(
    upstream: FakeUpstream, open_upstream: OpenModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "MAX_DOCUMENT_BYTES", 1_000_000)
    upstream.reply = document({"data": [{"index": 0, "embedding": [0.5] * 300_000}]})
    with pytest.raises(TooLarge, match="is larger than 1 MB: send fewer inputs at a time"):
        read(open_upstream().embed(["a"]))


def test_chunks_of_azure_without_choices_are_skipped(
    upstream: FakeUpstream, open_upstream: OpenModel
) -> None:
    upstream.reply = Reply([event({"choices": [], "prompt_filter_results": []}), *say("a"), DONE])
    assert text_of(read(open_upstream().generate(GenerationRequest(CHAT)))) == "a"
