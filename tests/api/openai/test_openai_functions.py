"""Clients from before there were tools: they tell functions, and read function_call."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from inference.types import CallDelta, Finished, Message, Started, Token, Tool, ToolCall
from tests.api.openai.asking import CHATS, USER, chunks, whole
from tests.fake_backend import FakeBackend, Script

OPENAIS_OWN = {"X-Stainless-Lang": "python"}
FUNCTION = {"name": "get_weather", "description": "Weather", "parameters": {"type": "object"}}
CALL: Script = [
    Started(0, prompt_tokens=9, cached_tokens=0),
    Token(0, 7, ""),
    CallDelta(0, 0, "call_1", "get_weather", '{"city": ', done=False),
    CallDelta(0, 0, "call_1", "get_weather", '"Paris"}', done=True),
    Finished(0, "stop", tokens=8),
]
CALLED = {"name": "get_weather", "arguments": '{"city": "Paris"}'}


@pytest.mark.parametrize(
    ("choice", "told"),
    [(None, "auto"), ("auto", "auto"), ("none", "none"), ({"name": "get_weather"}, "get_weather")],
)
def test_functions_are_tools_of_which_one_may_be_called(
    client: FlaskClient, backend: FakeBackend, choice: Any, told: str
) -> None:
    whole(client, CHATS, functions=[FUNCTION], function_call=choice)
    (request,) = backend.requests
    assert request.tools == (Tool("get_weather", "Weather", {"type": "object"}),)
    assert (request.tool_choice, request.parallel_calls) == (told, False)


def test_a_call_is_told_as_a_function_call(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = CALL
    (choice,) = whole(client, CHATS, functions=[FUNCTION])["choices"]
    message = {"role": "assistant", "content": None, "tool_calls": [], "function_call": CALLED}
    assert (choice["message"], choice["finish_reason"]) == (message, "function_call")


def test_a_call_is_streamed_as_a_function_call(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = CALL
    got = [chunk["choices"][0] for chunk in chunks(client, CHATS, OPENAIS_OWN, functions=[FUNCTION])]
    assert [choice["delta"]["function_call"] for choice in got[1:-1]] == [
        {"name": "get_weather", "arguments": ""},
        {"arguments": '{"city": '},
        {"arguments": '"Paris"}'},
    ]
    assert got[-1]["finish_reason"] == "function_call"


def test_an_answer_without_a_call_is_plain(client: FlaskClient) -> None:
    (choice,) = whole(client, CHATS, functions=[FUNCTION])["choices"]
    assert (choice["message"]["content"], choice["message"]["function_call"]) == ("Hello world", None)
    assert choice["finish_reason"] == "stop"


def test_a_call_that_was_made_is_part_of_the_conversation(client: FlaskClient, backend: FakeBackend) -> None:
    called = {"role": "assistant", "content": None, "function_call": CALLED}
    result = {"role": "function", "name": "get_weather", "content": "rain"}
    whole(client, CHATS, messages=[USER, called, result], functions=[FUNCTION])
    assert backend.requests[0].prompt == (
        Message(**USER),
        Message("assistant", "", tool_calls=(ToolCall("", "get_weather", CALLED["arguments"]),)),
        Message("tool", "rain", "get_weather"),
    )


def test_what_is_wrong_in_a_call_is_named_by_its_place(client: FlaskClient) -> None:
    called = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "["}}
    body = client.post(CHATS, json={"messages": [USER, called]}).get_json()
    assert body["error"]["param"] == "messages[1].function_call.arguments"
