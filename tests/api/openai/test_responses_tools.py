"""The tools of a response: what the model is offered, what the response repeats, and what is refused."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from inference.types import Tool
from tests.api.openai.app_requests import RESPONSES, body_for, get_response, refusal
from tests.fakes.fake_backend import FakeBackend

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION = {"type": "function", "name": "f", "description": "d", "parameters": SCHEMA, "strict": False}
CUSTOM = {"type": "custom", "name": "patch", "description": "Edits files."}
NAMESPACE = {"type": "namespace", "name": "n", "description": "ns", "tools": [FUNCTION, CUSTOM]}
HOSTED = [
    {"type": "web_search", "filters": {"allowed_domains": ["a"]}, "user_location": None},
    {"type": "file_search", "vector_store_ids": ["v"], "filters": {"type": "eq", "key": "a", "value": 1}},
    {"type": "mcp", "server_label": "l", "server_url": "http://x", "allowed_tools": ["a"], "headers": {}},
    {"type": "code_interpreter", "container": {"type": "auto"}},
    {"type": "image_generation", "output_format": "png", "size": "auto"},
    {"type": "local_shell"},
    {"type": "tool_search", "execution": "client", "description": "d", "parameters": {"type": "object"}},
    {"type": "computer_use_preview", "display_width": 1, "display_height": 1, "environment": "linux"},
    {"type": "never_heard_of"},
]
TEXT_INPUT = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


@pytest.fixture
def offered(client: FlaskClient, backend: FakeBackend) -> Any:
    """The tools that the model is offered for a body with these fields."""

    def tools(**fields: Any) -> tuple[Tool, ...]:
        get_response(client, RESPONSES, **fields)
        return backend.requests[-1].tools

    return tools


def input_schema(format: dict[str, str], offered: Any) -> dict[str, Any]:
    (tool,) = offered(tools=[CUSTOM | {"format": format}])
    return tool.parameters["properties"]["input"]


def test_a_namespaces_tools_have_its_name_in_front(offered: Any) -> None:
    assert [tool.name for tool in offered(tools=[NAMESPACE, FUNCTION])] == ["n__f", "n__patch", "f"]


def test_a_function_may_have_the_form_of_a_chats_tool(client: FlaskClient, offered: Any) -> None:
    nested = {name: value for name, value in FUNCTION.items() if name != "type"}
    chat_form = {"type": "function", "function": nested}
    assert offered(tools=[chat_form]) == offered(tools=[FUNCTION])
    assert get_response(client, RESPONSES, tools=[chat_form])["tools"] == [FUNCTION]


def test_a_custom_tool_is_a_function_with_one_text(offered: Any) -> None:
    (tool,) = offered(tools=[CUSTOM])
    assert (tool.name, tool.description, tool.parameters) == ("patch", "Edits files.", TEXT_INPUT)
    assert input_schema({"type": "text"}, offered) == {"type": "string"}


def test_a_regular_expression_constrains_the_text_of_a_custom_tool(offered: Any) -> None:
    regex = {"type": "grammar", "syntax": "regex", "definition": "a|b"}
    assert input_schema(regex, offered) == {"type": "string", "pattern": "^(?:a|b)$"}


def test_a_grammar_in_larks_syntax_is_described_to_the_model(offered: Any) -> None:
    schema = input_schema({"type": "grammar", "syntax": "lark", "definition": 'start: "a"'}, offered)
    assert schema["type"] == "string" and 'start: "a"' in schema["description"]


@pytest.mark.parametrize("tool", HOSTED, ids=lambda tool: tool["type"])
def test_tools_that_other_servers_run_are_left_out(offered: Any, tool: dict[str, Any]) -> None:
    assert offered(tools=[tool, FUNCTION], tool_choice="auto") == offered(tools=[FUNCTION])
    assert offered(tools=[tool]) == ()
    assert offered(tools=[{"type": "namespace", "name": "n", "tools": [tool]}]) == ()


@pytest.mark.parametrize("kind", ["additional_tools", "tool_search_output"])
def test_an_item_adds_tools(offered: Any, kind: str) -> None:
    item = {"type": kind, "role": "developer", "tools": [NAMESPACE, HOSTED[0]]}
    tools = offered(input=[item, {"role": "user", "content": "hi"}], tools=[FUNCTION])
    assert [tool.name for tool in tools] == ["f", "n__f", "n__patch"]


def test_a_later_definition_of_a_tool_replaces_an_earlier_one(offered: Any) -> None:
    item = {"type": "additional_tools", "tools": [FUNCTION | {"description": "new"}]}
    tools = offered(input=[item, {"role": "user", "content": "hi"}], tools=[FUNCTION])
    assert [tool.description for tool in tools] == ["new"]


def test_a_response_repeats_the_tools_that_it_offered(client: FlaskClient) -> None:
    got = get_response(client, RESPONSES, tools=[FUNCTION, NAMESPACE, CUSTOM, *HOSTED])["tools"]
    assert got == [FUNCTION, NAMESPACE, CUSTOM]


@pytest.mark.parametrize(
    "format", [{"type": "text"}, {"type": "grammar", "syntax": "regex", "definition": "a"}]
)
def test_a_response_repeats_a_custom_tool_as_it_was_sent(client: FlaskClient, format: Any) -> None:
    """OpenAI's schema has no null in these fields."""
    tool = {"type": "custom", "name": "patch", "format": format}
    assert get_response(client, RESPONSES, tools=[tool])["tools"] == [tool]


def test_a_response_repeats_the_format_of_its_text_as_it_was_sent(client: FlaskClient) -> None:
    format = {"type": "json_schema", "name": "a", "schema": {"type": "object"}}
    for each in (format, format | {"description": "d", "strict": True}, {"type": "json_object"}):
        assert get_response(client, RESPONSES, text={"format": each})["text"] == {"format": each}


@pytest.mark.parametrize(
    ("choice", "name"),
    [
        ({"type": "function", "name": "f"}, "f"),
        ({"type": "function", "name": "f", "namespace": "n"}, "n__f"),
        ({"type": "custom", "name": "patch"}, "n__patch"),
        ({"type": "function", "name": "n__f"}, "n__f"),
    ],
)
def test_a_choice_names_a_tool_as_the_client_does(
    client: FlaskClient, backend: FakeBackend, choice: dict[str, str], name: str
) -> None:
    got = get_response(client, RESPONSES, tools=[FUNCTION, NAMESPACE], tool_choice=choice)
    assert backend.requests[-1].tool_choice == name
    assert got["tool_choice"] == choice


def test_a_choice_may_have_the_form_of_a_chat(client: FlaskClient, backend: FakeBackend) -> None:
    choice = {"type": "function", "function": {"name": "f"}}
    got = get_response(client, RESPONSES, tools=[FUNCTION, NAMESPACE], tool_choice=choice)
    assert (backend.requests[-1].tool_choice, got["tool_choice"]) == ("f", {"type": "function", "name": "f"})


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [{"name": "f"}]}, "tools[0].type"),
        ({"tools": [{"type": "custom", "name": ""}]}, "tools[0].name"),
        ({"tools": [FUNCTION, {**NAMESPACE, "tools": [{"type": "custom"}]}]}, "tools[1].tools[0].name"),
        ({"tools": [NAMESPACE, FUNCTION | {"name": "n__f"}]}, "tools[1].name"),
        ({"tools": [HOSTED[0]], "tool_choice": "required"}, "tool_choice"),
        ({"tools": [HOSTED[0]], "tool_choice": {"type": "web_search"}}, "tool_choice"),
        ({"tools": [NAMESPACE], "tool_choice": {"type": "function", "name": "g"}}, "tool_choice"),
        ({"tools": [NAMESPACE] * 2, "tool_choice": {"type": "function", "name": "x__f"}}, "tool_choice"),
        (
            {"input": [{"type": "additional_tools", "tools": [{"type": "mcp", "name": 5}]}]},
            "input[0].tools[0].name",
        ),
        ({"input": [{"type": "additional_tools", "tools": {"a": 1}}]}, "input[0].tools"),
    ],
)
def test_a_tool_that_cannot_be_called_is_refused(
    client: FlaskClient, fields: dict[str, Any], field: str
) -> None:
    response = client.post(RESPONSES, json=body_for(RESPONSES, **fields))
    refusal(response, 400, response.get_json()["error"]["message"], "Bad Request")
    assert response.get_json()["error"]["param"] == field
