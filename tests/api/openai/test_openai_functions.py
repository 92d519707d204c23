"""Clients from before tools existed: they send functions and read function_call."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from inference.events import CallDelta, Finished, Started, Token
from inference.types import Message, Tool, ToolCall
from tests.api.openai.app_requests import CHATS, USER, chunks, get_response
from tests.fakes.fake_backend import FakeBackend, Script

FUNCTION = {"name": "get_weather", "description": "Weather", "parameters": {"type": "object"}}
CALL: Script = [
    Started(0, prompt_tokens=9, cached_tokens=0),
    Token(0, 7, ""),
    CallDelta(0, 0, "call_1", "get_weather", '{"city": ', done=False),
    CallDelta(0, 0, "call_1", "get_weather", '"Paris"}', done=True),
    Finished(0, "stop", num_tokens=8),
]
CALLED = {"name": "get_weather", "arguments": '{"city": "Paris"}'}


@pytest.mark.parametrize(
    ("choice", "tool_choice"),
    [(None, "auto"), ("auto", "auto"), ("none", "none"), ({"name": "get_weather"}, "get_weather")],
)
def test_functions_become_tools_without_parallel_calls(
    client: FlaskClient, backend: FakeBackend, choice: Any, tool_choice: str
) -> None:
    get_response(client, CHATS, functions=[FUNCTION], function_call=choice)
    (request,) = backend.requests
    assert request.tools == (Tool("get_weather", "Weather", {"type": "object"}),)
    assert (request.tool_choice, request.parallel_calls) == (tool_choice, False)


def test_a_call_is_returned_as_a_function_call(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = CALL
    (choice,) = get_response(client, CHATS, functions=[FUNCTION])["choices"]
    message = {"role": "assistant", "content": None, "refusal": None, "tool_calls": []}
    message |= {"function_call": CALLED}
    assert (choice["message"], choice["finish_reason"]) == (message, "function_call")


def test_a_call_is_streamed_as_a_function_call(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = CALL
    got = [chunk["choices"][0] for chunk in chunks(client, CHATS, functions=[FUNCTION])]
    assert [choice["delta"]["function_call"] for choice in got[1:-1]] == [
        {"name": "get_weather", "arguments": ""},
        {"arguments": '{"city": '},
        {"arguments": '"Paris"}'},
    ]
    assert got[-1]["finish_reason"] == "function_call"


def test_an_answer_without_a_call_is_plain(client: FlaskClient) -> None:
    (choice,) = get_response(client, CHATS, functions=[FUNCTION])["choices"]
    assert (choice["message"]["content"], choice["message"]["function_call"]) == ("Hello world", None)
    assert choice["finish_reason"] == "stop"


def test_an_earlier_call_is_part_of_the_conversation(client: FlaskClient, backend: FakeBackend) -> None:
    called = {"role": "assistant", "content": None, "function_call": CALLED}
    result = {"role": "function", "name": "get_weather", "content": "rain"}
    get_response(client, CHATS, messages=[USER, called, result], functions=[FUNCTION])
    assert backend.requests[0].prompt == (
        Message(**USER),
        Message("assistant", "", tool_calls=(ToolCall("", "get_weather", CALLED["arguments"]),)),
        Message("tool", "rain", "get_weather"),
    )


def test_an_earlier_call_that_max_tokens_cut_is_passed_on_as_it_is(
    client: FlaskClient, backend: FakeBackend
) -> None:
    call = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a'}}
    get_response(client, CHATS, messages=[USER, call])
    assert backend.requests[0].prompt[1].tool_calls == (ToolCall("", "f", '{"a'),)
