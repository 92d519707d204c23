"""The GenerationRequest made of each field, in each way that clients send it."""

import json
import sys
from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from inference.content import TextPart
from inference.sampling import Sampling
from inference.types import Constraint, GenerationRequest, Message, TemplateOptions, Tool, ToolCall
from settings.groups import ServerSettings
from tests.api.openai.app_requests import CHATS, COMPLETIONS, RESPONSES, USER, WEATHER, get_response
from tests.fakes.fake_backend import FakeBackend, make_models, say

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
CONTEXT = 128  # FakeBackend's
NULLS = (
    "model n best_of seed temperature top_p top_k min_p frequency_penalty presence_penalty logit_bias stop "
    "repetition_penalty max_tokens min_tokens response_format stream stream_options tools tool_choice "
    "logprobs top_logprobs tool_prompt"
)


@pytest.fixture
def ask(client: FlaskClient, backend: FakeBackend) -> Any:
    def requested(path: str = COMPLETIONS, **fields: Any) -> GenerationRequest:
        get_response(client, path, **fields)
        return backend.requests[-1]

    return requested


@pytest.mark.parametrize(
    ("fields", "sampling"),
    [
        ({}, Sampling()),
        ({"temperature": 0}, Sampling(greedy=True)),
        ({"temperature": 10**400}, Sampling(temperature=sys.float_info.max)),
        ({"temperature": 0.5, "top_p": 0.9}, Sampling(temperature=0.5, top_p=0.9)),
        ({"top_k": 5, "min_p": 0.1, "seed": 7}, Sampling(top_k=5, min_p=0.1, seed=7)),
        ({"top_k": -1}, Sampling()),
        (
            {"presence_penalty": 1, "frequency_penalty": -1, "repetition_penalty": 1.2},
            Sampling(presence_penalty=1.0, frequency_penalty=-1.0, repetition_penalty=1.2),
        ),
        ({"logit_bias": {"5": 200, "6": -200.5}}, Sampling(logit_bias={5: 100.0, 6: -100.0})),
        ({"logit_bias": [0.5, 1.0]}, Sampling()),
        ({"allowed_token_ids": [1, 2]}, Sampling(allowed_token_ids=frozenset((1, 2)), eos_allowed=False)),
    ],
)
@pytest.mark.parametrize("path", [COMPLETIONS, CHATS])
def test_sampling_is_as_requested(ask: Any, path: str, fields: dict[str, Any], sampling: Sampling) -> None:
    assert ask(path, **fields).sampling == sampling


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"max_tokens": 5, "min_tokens": 2}, {"max_tokens": 5, "min_tokens": 2}),
        ({"stop": "a"}, {"stop": ("a",)}),
        (
            {"stop": ["a", "b"], "include_stop_str_in_output": True},
            {"stop": ("a", "b"), "include_stop_str_in_output": True},
        ),
        ({"stop_token_ids": [3], "ignore_eos": True}, {"stop_token_ids": (3,), "ignore_eos": True}),
        ({"bad_words": ["x"]}, {"bad_words": ("x",)}),
        ({"truncate_prompt_tokens": 9}, {"truncate": 9}),
        ({"truncate_prompt_tokens": -1, "max_tokens": 28}, {"truncate": CONTEXT - 28}),
        ({"skip_special_tokens": False}, {"show_special": True}),
        ({"add_special_tokens": False}, {"add_special_tokens": False}),
        ({"prompt_logprobs": 3}, {"prompt_logprobs": 3}),
        ({"cache_salt": "tenant"}, {"cache_salt": "tenant"}),
        ({"n": 3}, {"n": 3}),
        ({"n": 1, "best_of": 4}, {"n": 4, "logprobs": 0}),
    ],
)
@pytest.mark.parametrize("path", [COMPLETIONS, CHATS])
def test_request_fields_are_passed_on(
    ask: Any, path: str, fields: dict[str, Any], expected: dict[str, Any], backend: FakeBackend
) -> None:
    backend.script = lambda request: [step for index in range(request.n) for step in say("a", index=index)]
    request = ask(path, **fields)
    assert {name: getattr(request, name) for name in expected} == expected
    assert request.reject_if_too_long


def test_max_tokens_default_to_16_for_completions_and_to_the_context_for_chats(ask: Any) -> None:
    assert ask(COMPLETIONS).max_tokens == 16
    assert ask(CHATS).max_tokens is None
    assert ask(CHATS, max_tokens=3).max_tokens == 3
    assert ask(CHATS, max_tokens=3, max_completion_tokens=5).max_tokens == 5


def test_settings_are_the_defaults_of_fields_that_are_not_sent(backend: FakeBackend) -> None:
    settings = ServerSettings(default_temperature=0.5, default_max_tokens=9, request_timeout_s=2.0)
    get_response(create_app(make_models(backend), settings).test_client(), CHATS)
    (request,) = backend.requests
    assert (request.sampling.temperature, request.max_tokens, request.deadline) == (0.5, 9, 2.0)


@pytest.mark.parametrize(("max_time", "deadline"), [(1.5, 1.5), (3, 2.0), (None, 2.0)])
def test_the_earlier_one_of_max_time_and_the_setting_ends_an_answer(
    max_time: float | None, deadline: float, backend: FakeBackend
) -> None:
    app = create_app(make_models(backend), ServerSettings(request_timeout_s=2.0))
    get_response(app.test_client(), CHATS, max_time=max_time)
    assert backend.requests[0].deadline == deadline


@pytest.mark.parametrize("path", [COMPLETIONS, CHATS])
def test_a_number_may_be_a_string_and_an_integer_may_have_a_point(ask: Any, path: str) -> None:
    request = ask(path, max_tokens=5.0, top_k="3", temperature="0.5", echo="false")
    assert (request.max_tokens, request.sampling) == (5, Sampling(temperature=0.5, top_k=3))


@pytest.mark.parametrize("path", [COMPLETIONS, CHATS])
def test_fields_may_be_null_or_unknown(ask: Any, path: str) -> None:
    least = ask(path)
    nulls = dict.fromkeys(NULLS.split())
    assert ask(path, **nulls, nonsense={"a": 1}, user="me", metadata={"a": "b"}, store=True) == least


@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, Constraint("json")),
        ({"response_format": {"type": "json_object", "value": SCHEMA}}, Constraint("json_schema", SCHEMA)),
        ({"response_format": {"type": "json", "value": SCHEMA}}, Constraint("json_schema", SCHEMA)),
        ({"response_format": {"type": "json", "value": "{}"}}, Constraint("json_schema", "{}")),
        ({"response_format": {"type": "regex", "value": "a+"}}, Constraint("regex", "a+")),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
            Constraint("json_schema", SCHEMA),
        ),
        (
            {"response_format": {"type": "json_schema", "value": {"name": "x", "schema": SCHEMA}}},
            Constraint("json_schema", SCHEMA),
        ),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, Constraint("json")),
        ({"structured_outputs": {"json": SCHEMA}}, Constraint("json_schema", SCHEMA)),
        ({"structured_outputs": {"regex": "a"}}, Constraint("regex", "a")),
        ({"structured_outputs": {"choice": ["a", "b"]}}, Constraint("choice", ["a", "b"])),
        ({"structured_outputs": {"grammar": "start: 'a'"}}, Constraint("grammar", "start: 'a'")),
        ({"structured_outputs": {"json_object": True, "whitespace_pattern": " "}}, Constraint("json")),
        ({"structured_outputs": {"json_object": False}}, None),
        ({"guided_json": SCHEMA}, Constraint("json_schema", SCHEMA)),
        ({"guided_json": "{}"}, Constraint("json_schema", "{}")),
        ({"guided_regex": "a", "guided_decoding_backend": "x"}, Constraint("regex", "a")),
        ({"guided_choice": ["a"]}, Constraint("choice", ["a"])),
        ({"guided_grammar": "g"}, Constraint("grammar", "g")),
        ({"response_format": {"type": "json_object", "schema": SCHEMA}}, Constraint("json_schema", SCHEMA)),
        ({"response_format": {"type": "json_schema", "schema": SCHEMA}}, Constraint("json_schema", SCHEMA)),
        ({"response_format": {"type": "json_object", "schema": None}}, Constraint("json")),
        (
            {"response_format": {"type": "json_object", "json_schema": {"schema": SCHEMA}}},
            Constraint("json_schema", SCHEMA),
        ),
        ({"response_format": {"type": "regex", "pattern": "a+"}}, Constraint("regex", "a+")),
        ({"response_format": {"type": "grammar", "grammar": "g"}}, Constraint("grammar", "g")),
        ({"grammar": "g"}, Constraint("grammar", "g")),
        ({"ebnf": "g"}, Constraint("grammar", "g")),
        ({"regex": "a"}, Constraint("regex", "a")),
        ({"json_schema": SCHEMA}, Constraint("json_schema", SCHEMA)),
        ({"json_schema": "{}", "grammar": "", "grammar_lazy": False}, Constraint("json_schema", "{}")),
        ({"json_schema": {}}, Constraint("json_schema", {})),
        ({"grammar": "", "ebnf": "", "regex": "", "json_schema": "", "structural_tag": None}, None),
        ({"structured_outputs": {"grammar": "g"}, "guided_grammar": "g"}, Constraint("grammar", "g")),
        ({"structured_outputs": {"grammar": "g"}, "guided_regex": "a"}, Constraint("grammar", "g")),
        (
            {"structured_outputs": {"whitespace_pattern": " "}, "guided_regex": "a"},
            Constraint("regex", "a"),
        ),
        (
            {"guided_json": SCHEMA, "response_format": {"type": "json_object", "schema": SCHEMA}},
            Constraint("json_schema", SCHEMA),
        ),
        (
            {"guided_json": json.dumps(SCHEMA), "json_schema": SCHEMA},
            Constraint("json_schema", json.dumps(SCHEMA)),
        ),
    ],
)
@pytest.mark.parametrize("path", [COMPLETIONS, CHATS])
def test_an_answer_format_is_parsed_in_every_spelling(
    ask: Any, path: str, fields: dict[str, Any], constraint: Constraint | None
) -> None:
    assert ask(path, **fields).constraint == constraint


@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        ({"text": {"format": {"type": "json_object"}}}, Constraint("json")),
        ({"text": {"format": {"type": "json_object", "schema": SCHEMA}}}, Constraint("json_schema", SCHEMA)),
        ({"structured_outputs": {"choice": ["a"]}}, Constraint("choice", ["a"])),
        ({"guided_regex": "a"}, Constraint("regex", "a")),
        ({"grammar": "g"}, Constraint("grammar", "g")),
        ({"json_schema": SCHEMA, "ebnf": ""}, Constraint("json_schema", SCHEMA)),
    ],
)
def test_a_response_has_the_formats_of_a_chat(
    ask: Any, fields: dict[str, Any], constraint: Constraint | None
) -> None:
    assert ask(RESPONSES, **fields).constraint == constraint


@pytest.mark.parametrize(
    ("fields", "template"),
    [
        ({}, TemplateOptions()),
        ({"add_generation_prompt": False}, TemplateOptions(add_generation_prompt=False)),
        (
            {"continue_final_message": True},
            TemplateOptions(add_generation_prompt=False, continue_final_message=True),
        ),
        (
            {"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": False}},
            TemplateOptions(arguments={"enable_thinking": False}, reasoning_effort="low"),
        ),
        ({"documents": [{"text": "a"}]}, TemplateOptions(arguments={"documents": [{"text": "a"}]})),
    ],
)
def test_the_chat_template_gets_the_requested_options(
    ask: Any, fields: dict[str, Any], template: TemplateOptions
) -> None:
    assert ask(CHATS, **fields).template == template


@pytest.mark.parametrize(
    ("choice", "tool_choice"),
    [
        (None, "auto"),
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("any", "required"),
        ("get_weather", "get_weather"),
        ({"type": "function", "function": {"name": "get_weather"}}, "get_weather"),
        ({"function": {"name": "get_weather"}}, "get_weather"),
    ],
)
def test_tools_and_the_choice_among_them_are_passed_on(ask: Any, choice: Any, tool_choice: str) -> None:
    request = ask(CHATS, tools=[WEATHER], tool_choice=choice, parallel_tool_calls=False)
    assert request.tools == (Tool("get_weather", "", {"type": "object"}),)
    assert (request.tool_choice, request.parallel_calls) == (tool_choice, False)


def test_a_response_is_a_chat_in_another_format(ask: Any) -> None:
    function = WEATHER["function"]
    request = ask(
        RESPONSES,
        instructions="Be brief.",
        input=[
            {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Wait"}]},
            {"type": "reasoning", "summary": []},
            {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "rain"},
        ],
        tools=[{"type": "function", **function}],
        tool_choice={"type": "function", "name": "get_weather"},
        max_output_tokens=9,
        temperature=0,
        text={"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}},
        reasoning={"effort": "high"},
        include=["message.output_text.logprobs"],
        truncation="auto",
    )
    assert request.prompt == (
        Message("system", "Be brief."),
        Message("user", (TextPart("Hi"),)),
        Message("assistant", (TextPart("Wait"),), tool_calls=(ToolCall("c1", "get_weather", "{}"),)),
        Message("tool", "rain", "get_weather", tool_call_id="c1"),
    )
    assert (request.max_tokens, request.reject_if_too_long, request.truncate) == (9, False, CONTEXT - 9)
    assert (request.sampling.greedy, request.logprobs) == (True, 0)
    assert request.constraint == Constraint("json_schema", SCHEMA)
    assert request.template == TemplateOptions(reasoning_effort="high")
    assert request.tool_choice == "get_weather"
    assert ask(RESPONSES, input="hi").prompt == (Message(**USER),)


@pytest.mark.parametrize(("most", "status"), [(3, 200), (2, 400)])
def test_the_settings_limit_the_number_of_prompts_in_a_completion(
    backend: FakeBackend, most: int, status: int
) -> None:
    client = create_app(make_models(backend), ServerSettings(max_client_batch_size=most)).test_client()
    response = client.post(COMPLETIONS, json={"prompt": ["a", "b", "c"]})
    assert response.status_code == status, response.text
