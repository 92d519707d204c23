"""The input items of a response as messages: calls and outputs of all tools, and items of other servers."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from inference.content import TextPart
from inference.types import Message, ToolCall
from tests.api.openai.app_requests import RESPONSES, USER, body_for, get_response, refusal
from tests.fakes.fake_backend import FakeBackend

# Items of tools that other servers run, as the clients of those servers send them back.
FOREIGN_ITEMS: list[dict[str, Any]] = [
    {
        "type": "web_search_call",
        "id": "ws",
        "status": "completed",
        "action": {"type": "search", "query": "x"},
    },
    {"type": "file_search_call", "id": "fs", "queries": ["x"], "status": "completed", "results": None},
    {"type": "local_shell_call", "id": "a", "call_id": "b", "action": {"type": "exec", "command": ["ls"]}},
    {"type": "local_shell_call_output", "id": "a", "output": "x"},
    {"type": "computer_call", "id": "a", "call_id": "b", "action": {"type": "wait"}},
    {"type": "computer_call_output", "call_id": "a", "output": {"type": "computer_screenshot"}},
    {"type": "code_interpreter_call", "id": "a", "code": "1", "container_id": "c", "outputs": []},
    {"type": "image_generation_call", "id": "a", "status": "completed", "result": "b64"},
    {"type": "tool_search_call", "call_id": "q", "arguments": {"query": "x"}},
    {"type": "mcp_list_tools", "id": "a", "server_label": "x", "tools": [{"name": "t", "input_schema": {}}]},
    {"type": "mcp_call", "id": "a", "name": "t", "arguments": "{}", "server_label": "x", "output": "y"},
    {"type": "shell_call_output", "call_id": "a", "output": [{"stdout": "x", "stderr": ""}]},
    {"type": "compaction", "encrypted_content": "zzz"},
    {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "t"}]},
    {"type": "reasoning", "summary": [], "content": None, "encrypted_content": "zzz"},
    {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]},
    {"type": "never_heard_of"},
]


@pytest.fixture
def prompt_of(client: FlaskClient, backend: FakeBackend) -> Any:
    def prompt(*items: dict[str, Any]) -> Any:
        get_response(client, RESPONSES, input=list(items))
        return backend.requests[-1].prompt

    return prompt


def call_item(kind: str, **fields: str) -> dict[str, str]:
    return {"type": kind, "call_id": "c1", "name": "exec", **fields}


@pytest.mark.parametrize("item", FOREIGN_ITEMS, ids=lambda item: item["type"])
def test_items_of_other_servers_are_left_out(prompt_of: Any, item: dict[str, Any]) -> None:
    assert prompt_of(item, USER, item) == (Message("user", "hi"),)


def test_content_parts_are_a_message_of_the_user(prompt_of: Any) -> None:
    first, second = ({"type": "input_text", "text": text} for text in ("one", "two"))
    assert prompt_of(first) == (Message("user", (TextPart("one"),)),)
    *_, gathered = prompt_of(USER, {"type": "message", "role": "assistant", "content": "x"}, first, second)
    assert (gathered.role, gathered.content) == ("user", (TextPart("one"), TextPart("two")))


def test_an_image_among_the_items_is_refused(client: FlaskClient) -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,"}
    response = client.post(RESPONSES, json=body_for(RESPONSES, input=[USER, image]))
    assert response.status_code == 400 and "image" in response.get_json()["error"]["message"]


def test_a_namespaced_call_gets_the_models_name(prompt_of: Any) -> None:
    _, assistant, _ = prompt_of(
        USER,
        call_item("function_call", namespace="n", arguments='{"a": 1}'),
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
    )
    assert assistant.tool_calls == (ToolCall("c1", "n__exec", '{"a": 1}'),)


@pytest.mark.parametrize(("namespace", "name"), [(None, "exec"), ("n", "n__exec")])
def test_a_custom_call_is_a_call_with_one_text(prompt_of: Any, namespace: str | None, name: str) -> None:
    call = call_item("custom_tool_call", input='say "é"\n') | ({"namespace": namespace} if namespace else {})
    output = {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"}
    assert prompt_of(USER, call, output) == (
        Message("user", "hi"),
        Message("assistant", "", tool_calls=(ToolCall("c1", name, '{"input": "say \\"é\\"\\n"}'),)),
        Message("tool", "done", name, tool_call_id="c1"),
    )


def test_a_message_of_another_agent_is_the_users(prompt_of: Any) -> None:
    task = {"type": "input_text", "text": "Task: "}
    encrypted = {"type": "encrypted_content", "encrypted_content": "say hello"}
    item = {"type": "agent_message", "author": "/root", "recipient": "/root/a"}
    assert prompt_of({**item, "content": [task, encrypted]}) == (
        Message("user", (TextPart("Task: "), TextPart("say hello"))),
    )
    assert prompt_of({**item, "content": "hello"}) == (Message("user", "hello"),)


@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output"])
def test_an_image_in_a_tools_output_becomes_a_note(prompt_of: Any, kind: str) -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"}
    output = [{"type": "input_text", "text": "Screenshot:"}, image]
    (message,) = prompt_of({"type": kind, "call_id": "c1", "output": output})
    note = "[input_image left out: the served model reads text only]"
    assert message.content == (TextPart("Screenshot:"), TextPart(note))


@pytest.mark.parametrize(
    ("item", "field"),
    [
        ({"type": "custom_tool_call", "call_id": "c1", "input": "x"}, "input[0]"),
        ({"type": "custom_tool_call", "name": "exec", "input": "x"}, "input[0]"),
        ({"type": "custom_tool_call_output", "output": "x"}, "input[0]"),
        ({"type": "custom_tool_call_output", "call_id": "c1"}, "input[0]"),
        ({"type": "custom_tool_call_output", "call_id": "c1", "output": {"a": 1}}, "input[0].output"),
        ({"type": "function_call_output", "call_id": "c1", "output": [1]}, "input[0].output[0]"),
    ],
)
def test_an_item_that_lacks_something_is_refused(
    client: FlaskClient, item: dict[str, Any], field: str
) -> None:
    response = client.post(RESPONSES, json=body_for(RESPONSES, input=[item]))
    refusal(response, 400, response.get_json()["error"]["message"], "Bad Request")
    assert response.get_json()["error"]["param"] == field


def test_the_fields_that_agents_send_are_accepted(client: FlaskClient) -> None:
    fields = {
        "include": ["reasoning.encrypted_content", "never_heard_of"],
        "reasoning": {"effort": "low", "summary": "auto", "context": "all_turns"},
        "text": {"verbosity": "low"},
        "prompt_cache_key": "k",
        "client_metadata": {"thread_id": "t"},
        "service_tier": "priority",
        "safety_identifier": "s",
        "stream_options": {"include_obfuscation": False},
        "parallel_tool_calls": True,
        "max_tool_calls": 3,
        "store": False,
        "tool_choice": "auto",
        "truncation": "disabled",
    }
    got = get_response(client, RESPONSES, **fields)
    assert got["text"] == {"format": {"type": "text"}, "verbosity": "low"}
    assert (got["status"], got["reasoning"]["effort"]) == ("completed", "low")
