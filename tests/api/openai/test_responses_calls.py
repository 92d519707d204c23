"""The calls of a response: items and events of functions, namespaced functions and custom tools."""

import json
from typing import Any

import pytest
from flask.testing import FlaskClient

from inference.errors import Unavailable
from inference.events import CallDelta, Finished, Started
from tests.api.openai.app_requests import RESPONSES, events, get_response
from tests.fakes.fake_backend import FakeBackend, Script, say

FUNCTION = {"type": "function", "name": "wait", "parameters": {"type": "object"}}
CUSTOM = {"type": "custom", "name": "exec"}
NAMESPACE = {"type": "namespace", "name": "functions", "tools": [FUNCTION, CUSTOM]}
PATCH = '*** Begin "Patch"\n+é😀\n'


def call(name: str, arguments: str, size: int = 3, reason: str = "stop") -> Script:
    """An answer that is one call, in pieces of `size` characters."""
    texts = [arguments[i : i + size] for i in range(0, len(arguments), size)]
    done = [reason == "stop" and i == len(texts) - 1 for i in range(len(texts))]
    deltas = [CallDelta(0, 0, "call_1", name, text, last) for text, last in zip(texts, done, strict=True)]
    return [Started(0, 3, 0), *deltas, Finished(0, reason, num_tokens=len(texts))]


def of_type(got: list[Any], kind: str) -> list[Any]:
    return [event for event in got if event["type"] == f"response.{kind}"]


def test_a_namespaced_call_has_the_clients_names(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = call("functions__wait", '{"a": 1}')
    got = events(client, tools=[NAMESPACE])
    (item,) = got[-1]["response"]["output"]
    expected = ("function_call", "wait", "functions", '{"a": 1}')
    assert (item["type"], item["name"], item["namespace"], item["arguments"]) == expected
    assert of_type(got, "output_item.added")[0]["item"]["namespace"] == "functions"
    assert of_type(got, "function_call_arguments.done")[0]["name"] == "wait"


def test_a_call_of_a_plain_function_has_no_namespace(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = call("wait", "{}")
    assert "namespace" not in get_response(client, RESPONSES, tools=[FUNCTION])["output"][0]


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("tool", [CUSTOM, NAMESPACE], ids=["plain", "namespaced"])
def test_a_custom_call_streams_its_text(
    client: FlaskClient, backend: FakeBackend, tool: dict[str, Any], size: int
) -> None:
    name = "exec" if tool is CUSTOM else "functions__exec"
    backend.script = call(name, json.dumps({"input": PATCH}), size)
    got = events(client, tools=[tool])
    (item,) = got[-1]["response"]["output"]
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "exec", PATCH)
    assert (item["status"], item["call_id"]) == ("completed", "chatcmpl-tool-1")
    assert item.get("namespace") == (None if tool is CUSTOM else "functions")
    deltas = of_type(got, "custom_tool_call_input.delta")
    assert "".join(event["delta"] for event in deltas) == PATCH and all(each["delta"] for each in deltas)
    (added,), (done,) = of_type(got, "output_item.added"), of_type(got, "custom_tool_call_input.done")
    assert (added["item"]["input"], done["input"]) == ("", PATCH)
    ids = {each["item_id"] for each in [*deltas, done]} | {added["item"]["id"], item["id"]}
    assert len(ids) == 1 and item["id"].startswith("ctc_")
    assert of_type(got, "output_item.done")[0]["item"] == item
    unstreamed = get_response(client, RESPONSES, tools=[tool])["output"][0]
    assert unstreamed | {"id": item["id"]} == item


def test_events_of_items_have_the_id_of_the_response(client: FlaskClient, backend: FakeBackend) -> None:
    """Llama Stack's Agent finds no calls without it: its client requires the field in these events."""
    names = {"output_item.added", "output_item.done", "content_part.added", "content_part.done"}
    backend.script = [*say("Hi")[:-1], *call("wait", "{}")[1:]]
    got = events(client, tools=[FUNCTION])
    with_id = [event for event in got if event["type"].removeprefix("response.") in names]
    assert len(with_id) == 6
    assert {event.get("response_id") for event in with_id} == {got[0]["response"]["id"]}


def test_a_custom_call_without_the_parameter_keeps_its_arguments(
    client: FlaskClient, backend: FakeBackend
) -> None:
    backend.script = call("exec", '{"code": "ls"}')
    got = events(client, tools=[CUSTOM])
    assert got[-1]["response"]["output"][0]["input"] == '{"code": "ls"}'
    assert [each["delta"] for each in of_type(got, "custom_tool_call_input.delta")] == ['{"code": "ls"}']


def test_a_custom_call_that_was_cut_is_incomplete(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = call("exec", '{"input": "abc', reason="length")
    (item,) = get_response(client, RESPONSES, tools=[CUSTOM])["output"]
    assert (item["input"], item["status"]) == ("abc", "incomplete")


def test_a_tool_that_an_item_added_is_called_by_its_own_name(
    client: FlaskClient, backend: FakeBackend
) -> None:
    backend.script = call("functions__exec", '{"input": "x"}')
    items = [{"type": "additional_tools", "tools": [NAMESPACE]}, {"role": "user", "content": "hi"}]
    (item,) = get_response(client, RESPONSES, input=items)["output"]
    assert (item["type"], item["namespace"], item["input"]) == ("custom_tool_call", "functions", "x")


def test_two_calls_are_two_items(client: FlaskClient, backend: FakeBackend) -> None:
    calls = [
        CallDelta(0, 0, "call_1", "exec", '{"input": "a"}', True),
        CallDelta(0, 1, "call_2", "wait", "{}", True),
    ]
    backend.script = [Started(0, 3, 0), *calls, Finished(0, "stop", num_tokens=2)]
    got = events(client, tools=[CUSTOM, FUNCTION])
    output = got[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["custom_tool_call", "function_call"]
    assert [event["output_index"] for event in of_type(got, "output_item.done")] == [0, 1]


def test_a_responses_stream_that_breaks_ends_as_failed(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = [*say("a")[:-1], Unavailable("stopping")]
    *_, error, failed = events(client)
    assert (error["type"], failed["type"]) == ("error", "response.failed")
    response = failed["response"]
    assert (response["status"], response["usage"]) == ("failed", None)
    assert response["error"] == {"code": "server_error", "message": "stopping"}
    assert [item["status"] for item in response["output"]] == ["incomplete"]
    assert failed["sequence_number"] == error["sequence_number"] + 1
