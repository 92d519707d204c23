"""The tools and the token count of /v1/responses on the real engine."""

import json
import re
from typing import Any

import pytest
import requests

from tests.servers.serving import ServerProcess

pytestmark = pytest.mark.slow

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "name": "get_weather", "parameters": PARAMETERS}
NAMESPACE = {"type": "namespace", "name": "earth", "description": "", "tools": [WEATHER]}
DEFINITION = r"[a-c]{3}-\d\d"
CUSTOM = {
    "type": "custom",
    "name": "pick",
    "format": {"type": "grammar", "syntax": "regex", "definition": DEFINITION},
}
CALL = {"type": "function_call", "call_id": "c1", "namespace": "earth", "name": "get_weather"}
CONVERSATION = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": [{"type": "input_text", "text": "What's the weather in Paris?"}]},
    {**CALL, "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "rain"},
]


def respond(server: ServerProcess, path: str = "", **fields: Any) -> Any:
    response = server.post(f"/v1/responses{path}", fields)
    assert response.ok, response.text
    return response.json()


@pytest.mark.parametrize(
    "fields",
    [
        {"input": "What is the capital of France?"},
        {"input": CONVERSATION, "instructions": "You are a bot.", "tools": [NAMESPACE, CUSTOM]},
        {"input": CONVERSATION, "tools": [NAMESPACE], "tool_choice": "none"},
        {"input": "word " * 3000, "truncation": "auto"},
    ],
)
def test_the_counted_input_tokens_are_those_of_the_response(
    server: ServerProcess, fields: dict[str, Any]
) -> None:
    usage = respond(server, **fields, max_output_tokens=1)["usage"]
    counted = respond(server, "/input_tokens", **fields, max_output_tokens=1)
    assert counted == {"object": "response.input_tokens", "input_tokens": usage["input_tokens"]}


def test_an_input_longer_than_the_context_is_counted_too(server: ServerProcess) -> None:
    assert respond(server, "/input_tokens", input="word " * 3000)["input_tokens"] > 2048


def test_a_forced_call_of_a_custom_tool_matches_its_regular_expression(server: ServerProcess) -> None:
    for choice in ("required", {"type": "custom", "name": "pick"}):
        fields = {"input": "Pick one.", "tools": [CUSTOM], "tool_choice": choice, "stream": True}
        text = server.post("/v1/responses", fields).text
        events = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if "data: " in line]
        (item,) = events[-1]["response"]["output"]
        assert re.fullmatch(DEFINITION, item["input"])
        deltas = [e["delta"] for e in events if e["type"] == "response.custom_tool_call_input.delta"]
        assert "".join(deltas) == item["input"]


def test_a_namespaced_function_is_called(server: ServerProcess) -> None:
    tools = {"tools": [NAMESPACE], "tool_choice": "required", "temperature": 0}
    (item,) = respond(server, input="What's the weather in Paris?", **tools)["output"]
    assert (item["name"], item["namespace"], json.loads(item["arguments"])) == (
        "get_weather",
        "earth",
        {"city": "Paris"},
    )


def test_an_invalid_regular_expression_is_refused_if_it_is_needed(server: ServerProcess) -> None:
    custom = {**CUSTOM, "format": {"type": "grammar", "syntax": "regex", "definition": "[a-"}}
    fields: dict[str, Any] = {"input": "hi", "tools": [custom], "max_output_tokens": 2}
    refused: requests.Response = server.post("/v1/responses", {**fields, "tool_choice": "required"})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "tools")
    assert respond(server, **fields)["status"] == "incomplete"
