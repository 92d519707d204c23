"""tool_choice with type allowed_tools: the prompt has all tools, and only the listed ones may be called."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.api.openai.app_requests import CHATS, RESPONSES, body_for, get_response, refusal
from tests.fakes.fake_backend import FakeBackend

FLAT = [{"type": "function", "name": name, "parameters": {"type": "object"}} for name in ("a", "b", "c")]
TOOLS = [{"type": "function", "function": {"name": tool["name"]}} for tool in FLAT]
NAMESPACE = {"type": "namespace", "name": "n", "description": "", "tools": FLAT[:2]}
HOSTED = {"type": "web_search"}


def allow(mode: str, *names: str) -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


def allow_flat(mode: str, *tools: dict[str, Any]) -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": mode, "tools": list(tools)}


def function(name: str, **fields: str) -> dict[str, Any]:
    return {"type": "function", "name": name, **fields}


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_a_chat_may_call_only_the_allowed_tools(client: FlaskClient, backend: FakeBackend, mode: str) -> None:
    get_response(client, CHATS, tools=TOOLS, tool_choice=allow(mode, "a", "c"))
    request = backend.requests[-1]
    assert (request.tool_choice, request.allowed_tools) == (mode, {"a", "c"})
    assert [tool.name for tool in request.tools] == ["a", "b", "c"]
    assert [tool.name for tool in request.callable_tools] == ["a", "c"]


def test_without_allowed_tools_all_may_be_called(client: FlaskClient, backend: FakeBackend) -> None:
    get_response(client, CHATS, tools=TOOLS, tool_choice="required")
    assert backend.requests[-1].callable_tools == backend.requests[-1].tools


@pytest.mark.parametrize(
    ("choice", "field", "words"),
    [
        (allow("auto", "a", "x"), "tool_choice", "allows 'x', which is not among the tools"),
        (allow("required"), "tool_choice", "allows no tool"),
        (allow("any", "a"), "tool_choice.allowed_tools.mode", "any"),
        ({"type": "allowed_tools"}, "tool_choice.allowed_tools", "is required"),
        (allow_flat("auto", function("a")), "tool_choice.allowed_tools", "is required"),
        ({"type": "function"}, "tool_choice.function", "is required"),
    ],
)
def test_an_invalid_choice_is_refused(
    client: FlaskClient, choice: dict[str, Any], field: str, words: str
) -> None:
    response = client.post(CHATS, json=body_for(CHATS, tools=TOOLS, tool_choice=choice))
    error = response.get_json()["error"]
    refusal(response, 400, error["message"], "Bad Request")
    assert error["param"] == field and words in error["message"]


def test_a_chat_without_tools_can_allow_none(client: FlaskClient) -> None:
    response = client.post(CHATS, json=body_for(CHATS, tool_choice=allow("auto", "a")))
    refusal(response, 400, "When using `tool_choice`, `tools` must be set.", "Bad Request")


@pytest.mark.parametrize(
    ("tools", "choice", "allowed"),
    [
        (FLAT, allow_flat("auto", function("b")), {"b"}),
        (FLAT, allow_flat("required", function("b"), {"type": "mcp", "server_label": "s"}), {"b"}),
        ([*FLAT, HOSTED], allow_flat("auto", HOSTED), set()),
        ([*FLAT, NAMESPACE], allow_flat("auto", function("a", namespace="n")), {"n__a"}),
        ([*FLAT, NAMESPACE], allow_flat("auto", {"type": "namespace", "name": "n"}), {"n__a", "n__b"}),
        ([{"type": "custom", "name": "p"}], allow_flat("auto", {"type": "custom", "name": "p"}), {"p"}),
    ],
)
def test_a_response_may_call_only_the_allowed_tools(
    client: FlaskClient,
    backend: FakeBackend,
    tools: list[dict[str, Any]],
    choice: dict[str, Any],
    allowed: set[str],
) -> None:
    got = get_response(client, RESPONSES, tools=tools, tool_choice=choice)
    request = backend.requests[-1]
    assert (request.tool_choice, request.allowed_tools) == (choice["mode"], allowed)
    assert got["tool_choice"]["mode"] == choice["mode"]
    assert [tool["type"] for tool in got["tool_choice"]["tools"]] == [t["type"] for t in choice["tools"]]


@pytest.mark.parametrize(
    ("choice", "field"),
    [
        (allow_flat("auto", function("x")), "tool_choice"),
        (allow_flat("required", HOSTED), "tool_choice"),
        ({"type": "allowed_tools", "tools": [function("a")]}, "tool_choice.mode"),
        ({"type": "allowed_tools", "mode": "auto"}, "tool_choice.tools"),
    ],
)
def test_an_invalid_choice_of_a_response_is_refused(
    client: FlaskClient, choice: dict[str, Any], field: str
) -> None:
    response = client.post(RESPONSES, json=body_for(RESPONSES, tools=FLAT, tool_choice=choice))
    refusal(response, 400, response.get_json()["error"]["message"], "Bad Request")
    assert response.get_json()["error"]["param"] == field


def test_a_response_with_hosted_tools_alone_is_a_text_if_it_may_be(
    client: FlaskClient, backend: FakeBackend
) -> None:
    get_response(client, RESPONSES, tools=[HOSTED], tool_choice=allow_flat("auto", HOSTED))
    assert (backend.requests[-1].tools, backend.requests[-1].allowed_tools) == ((), None)
