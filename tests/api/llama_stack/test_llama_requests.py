"""The GenerationRequest that the backend gets for each form of body that clients send."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from inference.content import MessageContent, TextPart, content_text, parts_of
from inference.types import Constraint, GenerationRequest, Message, Tool, ToolCall
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeAdapters, FakeBackend, make_models

USER = {"role": "user", "content": "hi"}
USER_MESSAGE = Message("user", "hi")
SCHEMA = {"type": "object"}
PARIS = {"call_id": "c1", "tool_name": "get_weather", "arguments": {"city": "Paris"}}
WEATHER = {
    "tool_name": "get_weather",
    "description": "Tell the weather",
    "parameters": {
        "city": {"param_type": "string", "description": "Where", "required": True},
        "days": {"param_type": "int", "required": False, "default": 3},
        "units": {"param_type": "List[str]"},
        "whatever": {"param_type": "Any"},
    },
}


def chat(client: FlaskClient, backend: FakeBackend, **fields: Any) -> GenerationRequest:
    body = {"model_id": "fake/model", "messages": [USER]} | fields
    response = client.post("/v1/inference/chat-completion", json=body)
    assert response.status_code == 200, response.text
    return backend.requests[-1]


def complete(client: FlaskClient, backend: FakeBackend, **fields: Any) -> GenerationRequest:
    response = client.post("/inference/completion", json={"model": "fake/model", "content": "Once"} | fields)
    assert response.status_code == 200, response.text
    return backend.requests[-1]


@pytest.mark.parametrize("field", ["model", "model_id"])
@pytest.mark.parametrize("prefix", ["/inference/completion", "/alpha/inference/completion"])
def test_the_model_may_be_an_adapter(
    client: FlaskClient, backend: FakeBackend, field: str, prefix: str
) -> None:
    backend.lora = FakeAdapters("poet")
    assert client.post(prefix, json={field: "poet", "content": "Once"}).status_code == 200
    assert backend.requests[-1].adapter == "poet"
    reply = client.post(prefix, json={field: "cook", "content": "Once"})
    message = "Invalid value: Model 'cook' not found, this server has 'fake/model'"
    assert (reply.status_code, reply.get_json()["detail"]) == (400, message)


@pytest.mark.parametrize("path", ["/models/list", "/alpha/models/list", "/v1/models"])
def test_lists_of_models_have_the_base_of_an_adapter(
    client: FlaskClient, backend: FakeBackend, path: str
) -> None:
    backend.lora = FakeAdapters("poet")
    reply = client.get(path).get_json()
    card = (reply["data"] if isinstance(reply, dict) else reply)[-1]
    assert (card["identifier"], card["model_type"], card["metadata"]["parent"]) == (
        "poet",
        "llm",
        "fake/model",
    )


def test_a_body_of_defaults_is_a_plain_request(client: FlaskClient, backend: FakeBackend) -> None:
    """The body is the one that the typed client 0.0.47 sends."""
    body = {
        "model": "fake/model",
        "messages": [{"role": "user", "content": "hi", "context": None}],
        "sampling_params": {
            "strategy": "greedy",
            "temperature": 0.0,
            "top_p": 0.95,
            "top_k": 0,
            "max_tokens": 0,
            "repetition_penalty": 1.0,
        },
        "tools": [],
        "tool_choice": "auto",
        "tool_prompt_format": "json",
        "response_format": None,
        "stream": False,
        "logprobs": None,
    }
    assert client.post("/inference/chat_completion", json=body).status_code == 200
    (request,) = backend.requests
    assert (request.prompt, request.sampling.greedy) == ((USER_MESSAGE,), True)
    assert (request.max_tokens, request.tools, request.tool_choice) == (None, (), "auto")
    assert (request.constraint, request.logprobs, request.stop) == (None, None, ())


def test_every_optional_field_may_be_null(client: FlaskClient, backend: FakeBackend) -> None:
    names = "sampling_params tools tool_choice tool_prompt_format tool_config response_format logprobs stream"
    request = chat(client, backend, model=None, **dict.fromkeys(names.split()))
    empty_config = {"tool_choice": None, "tool_prompt_format": None, "system_message_behavior": None}
    assert request == chat(client, backend)
    assert request == chat(client, backend, tool_config=empty_config)


def test_unknown_fields_are_ignored(client: FlaskClient, backend: FakeBackend) -> None:
    assert chat(client, backend, x=1, sampling_params={"y": 2}) == chat(client, backend)


@pytest.mark.parametrize("name", ["fake/model", "model", "alias"])
@pytest.mark.parametrize("key", ["model", "model_id"])
def test_the_model_has_several_names_under_either_key(backend: FakeBackend, name: str, key: str) -> None:
    client = create_app(make_models(backend, "alias"), ServerSettings()).test_client()
    body = {key: name, "content": "Once"}
    assert client.post("/inference/completion", json=body).status_code == 200


def test_max_tokens_of_a_request_is_not_capped_by_the_default(backend: FakeBackend) -> None:
    client = create_app(make_models(backend), ServerSettings(default_max_tokens=100)).test_client()
    limits = [500, 0, None]
    requests = [complete(client, backend, sampling_params={"max_tokens": count}) for count in limits]
    assert [request.max_tokens for request in requests] == [500, 100, 100]
    assert complete(client, backend).max_tokens == 100


@pytest.mark.parametrize(
    ("stop", "expected"), [("a", ("a",)), (["a", "b"], ("a", "b")), ([], ()), (None, ())]
)
def test_stop_strings_come_alone_or_in_a_list(
    client: FlaskClient, backend: FakeBackend, stop: Any, expected: tuple[str, ...]
) -> None:
    assert complete(client, backend, sampling_params={"stop": stop}).stop == expected


@pytest.mark.parametrize(
    ("logprobs", "expected"), [({"top_k": 0}, 1), ({}, 1), ({"top_k": 5}, 5), (None, None)]
)
def test_logprobs_include_at_least_the_most_probable_token(
    client: FlaskClient, backend: FakeBackend, logprobs: Any, expected: int | None
) -> None:
    assert complete(client, backend, logprobs=logprobs).logprobs == expected


@pytest.mark.parametrize(
    ("response_format", "constraint"),
    [
        ({"type": "json_schema", "json_schema": SCHEMA}, Constraint("json_schema", SCHEMA)),
        ({"type": "grammar", "bnf": 'root ::= "a"'}, Constraint("grammar", 'root ::= "a"')),
        ({"type": "grammar", "bnf": {"root": '"a"'}}, Constraint("grammar", {"root": '"a"'})),
    ],
)
def test_a_response_format_is_a_constraint(
    client: FlaskClient, backend: FakeBackend, response_format: Any, constraint: Constraint
) -> None:
    assert complete(client, backend, response_format=response_format).constraint == constraint


H_I = (TextPart("h"), TextPart("i"))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("hi", "hi"),
        (["h", "i"], H_I),
        ({"type": "text", "text": "hi"}, (TextPart("hi"),)),
        ([{"type": "text", "text": "h"}, {"type": "text", "text": "i"}], H_I),
        ([{"type": "text", "text": "h"}, "i"], H_I),
    ],
)
def test_content_is_text_a_part_or_a_list(
    client: FlaskClient, backend: FakeBackend, content: Any, expected: MessageContent
) -> None:
    request = chat(client, backend, messages=[{"role": "user", "content": content}])
    assert request.prompt == (Message("user", expected),)
    assert complete(client, backend, content=content).prompt == "hi"


@pytest.mark.parametrize("content", ["", [], [""], [{"type": "text", "text": ""}, ""]])
def test_content_without_text_is_an_empty_string(
    client: FlaskClient, backend: FakeBackend, content: Any
) -> None:
    request = chat(client, backend, messages=[{"role": "user", "content": content}])
    assert request.prompt == (Message("user", ""),)


def test_a_users_context_follows_the_content(client: FlaskClient, backend: FakeBackend) -> None:
    request = chat(client, backend, messages=[USER | {"context": "Facts: none"}])
    assert request.prompt == (Message("user", "hi\n\nFacts: none"),)
    message = USER | {"context": ["Facts: ", "none"]}
    assert chat(client, backend, messages=[message]).prompt == (
        Message("user", (TextPart("hi\n\nFacts: "), TextPart("none"))),
    )


@pytest.mark.parametrize(
    "result",
    [
        {"role": "ipython", "call_id": "c1", "tool_name": "get_weather", "content": "sunny"},
        {"role": "tool", "call_id": "c1", "content": "sunny"},
    ],
)
@pytest.mark.parametrize(
    "call",
    [
        PARIS,
        PARIS | {"arguments": '{"city": "Paris"}'},
        PARIS | {"arguments": None, "arguments_json": '{"city": "Paris"}'},
    ],
)
def test_a_tool_result_follows_its_call_in_either_spelling(
    client: FlaskClient, backend: FakeBackend, call: Any, result: Any
) -> None:
    assistant = {"role": "assistant", "content": "", "stop_reason": "end_of_message", "tool_calls": [call]}
    request = chat(
        client, backend, messages=[{"role": "system", "content": "Be brief"}, USER, assistant, result]
    )
    assert request.prompt == (
        Message("system", "Be brief"),
        USER_MESSAGE,
        Message("assistant", "", tool_calls=(ToolCall("c1", "get_weather", '{"city": "Paris"}'),)),
        Message("tool", "sunny", name="get_weather", tool_call_id="c1"),
    )


def test_an_assistants_tool_calls_and_content_may_be_null(client: FlaskClient, backend: FakeBackend) -> None:
    messages = [USER, {"role": "assistant", "content": None, "tool_calls": None}, USER]
    assert chat(client, backend, messages=messages).prompt == (
        USER_MESSAGE,
        Message("assistant", ""),
        USER_MESSAGE,
    )


def test_a_tools_parameters_become_a_json_schema(client: FlaskClient, backend: FakeBackend) -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where"},
            "days": {"type": "integer", "default": 3},
            "units": {"type": "array"},
            "whatever": {},
        },
        "required": ["city", "units", "whatever"],
    }
    assert chat(client, backend, tools=[WEATHER]).tools == (Tool("get_weather", "Tell the weather", schema),)


def test_a_builtin_tool_needs_no_description(client: FlaskClient, backend: FakeBackend) -> None:
    (tool,) = chat(client, backend, tools=[{"tool_name": "brave_search"}]).tools
    assert tool.description
    assert tool.parameters["required"] == ["query"]


@pytest.mark.parametrize(
    ("fields", "choice", "tool_format"),
    [
        ({"tool_choice": "required", "tool_prompt_format": "function_tag"}, "required", "function_tag"),
        ({"tool_config": {"tool_choice": "none"}}, "none", None),
        ({"tool_config": {"tool_choice": "get_weather"}, "tool_choice": "auto"}, "get_weather", None),
        ({"tool_config": {"tool_prompt_format": "python_list"}}, "auto", "python_list"),
    ],
)
def test_tool_config_takes_precedence_over_the_fields_it_replaced(
    client: FlaskClient, backend: FakeBackend, fields: Any, choice: str, tool_format: str | None
) -> None:
    request = chat(client, backend, tools=[WEATHER], **fields)
    assert (request.tool_choice, request.tool_format) == (choice, tool_format)


@pytest.mark.parametrize(("behavior", "filled"), [("replace", True), ("append", False), (None, False)])
def test_a_replacing_system_message_is_filled_with_the_tool_definitions(
    client: FlaskClient, backend: FakeBackend, behavior: str | None, filled: bool
) -> None:
    config = {"system_message_behavior": behavior}
    for content in ("Use {{function_definitions}} well", ["Use ", "{{function_definitions}} well"]):
        messages = [{"role": "system", "content": content}, USER]
        system, _ = chat(client, backend, messages=messages, tools=[WEATHER], tool_config=config).prompt
        assert len(parts_of(system.content)) == (1 if isinstance(content, str) else 2)
        assert ("{{function_definitions}}" not in content_text(system.content)) is filled
        assert ('"name": "get_weather"' in content_text(system.content)) is filled
