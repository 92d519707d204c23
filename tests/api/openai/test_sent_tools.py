"""Tools reach the chat template as the client sent them.

The prompt's tokens are those of transformers' apply_chat_template with the same messages and tools.
"""

import copy
import json
from functools import cache
from typing import Any

import pytest
from flask.testing import FlaskClient
from transformers import AutoTokenizer

from inference.local.input_processor import InputProcessor
from inference.text.vocabulary import Vocabulary
from inference.types import GenerationRequest
from tests.api.openai.app_requests import CHATS, USER, body_for
from tests.fakes.fake_backend import FakeBackend
from tests.text.tokenizers_of_three_kinds import tokenizer

TURNS = (
    "{% for m in messages %}<|{{ m.role }}|>{% if m.tool_calls %}{{ m.tool_calls | map(attribute='function') "
    "| list | tojson }}{% else %}{{ m.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
# How the templates of published models write tools, reduced to that.
TEMPLATES = {
    "whole tools": "{% if tools %}{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}{% endif %}"
    + TURNS,
    "functions": "{% if tools %}{% for tool in tools %}{{ tool.function | tojson(indent=4) }}{% endfor %}"
    "{% endif %}" + TURNS,
    "fields": "{% if tools %}{% for tool in tools %}{% for key, value in tool.function.items() "
    "if key != 'return' %}{{ key }}: {{ value | tojson }}, {% endfor %}{% endfor %}{% endif %}" + TURNS,
    "parameters": "{% if tools %}{% for tool in tools %}{{ tool.function.name }}("
    "{% for name, schema in tool.function.parameters.properties | items %}{{ name }}: {{ schema.type }}, "
    "{% endfor %}){{ tool.function.description }}{% endfor %}{% endif %}" + TURNS,
}
CITY = {"required": ["city"], "properties": {"city": {"type": "string"}}, "type": "object"}
FULL = {
    "function": {
        "strict": True,
        "parameters": CITY,
        "description": "Rain?",
        "name": "weather",
        "x": [1.0, None],
    },
    "type": "function",
    "cache_control": {"type": "ephemeral"},
}
BARE = {"type": "function", "function": {"name": "now"}}
NULLS = {"type": "function", "function": {"name": "then", "description": None, "parameters": None}}
CONVERSATION = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Rain?"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Rome"}}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "No."},
]


@cache
def words_of(name: str) -> Any:
    if name == "models/demo":
        return AutoTokenizer.from_pretrained(name)
    words = copy.copy(tokenizer("byte-level"))
    words.chat_template = TEMPLATES[name]
    return words


def send(client: FlaskClient, path: str = CHATS, **fields: Any) -> None:
    """Post a body whose keys have the order of `fields`: Flask's client sorts them."""
    response = client.post(path, data=json.dumps(fields), content_type="application/json")
    assert response.status_code == 200, response.text


def prompt_ids(words: Any, request: GenerationRequest) -> list[int]:
    processor = InputProcessor(Vocabulary(words), context=2048, vocab=len(words), is_encoder_decoder=False)
    return list(processor.prompt_token_ids(request))


def expected_ids(words: Any, messages: list[Any], tools: list[Any]) -> list[int]:
    return words.apply_chat_template(messages, tools=tools, add_generation_prompt=True, return_dict=False)


@pytest.mark.parametrize("messages", [[USER], CONVERSATION])
@pytest.mark.parametrize("tools", [[FULL], [BARE, FULL], [NULLS]])
@pytest.mark.parametrize("name", ["models/demo", "whole tools", "functions", "fields"])
def test_the_prompts_tokens_are_those_of_apply_chat_template(
    client: FlaskClient, backend: FakeBackend, name: str, tools: list[Any], messages: list[Any]
) -> None:
    send(client, messages=messages, tools=tools)
    words = words_of(name)
    assert prompt_ids(words, backend.requests[0]) == expected_ids(words, messages, tools)


def test_a_template_that_needs_parameters_gets_empty_ones(client: FlaskClient, backend: FakeBackend) -> None:
    words = words_of("parameters")
    send(client, messages=[USER], tools=[FULL])
    assert prompt_ids(words, backend.requests[0]) == expected_ids(words, [USER], [FULL])
    send(client, messages=[USER], tools=[BARE])
    empty = {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}
    assert prompt_ids(words, backend.requests[1]) == expected_ids(words, [USER], [{"function": empty}])


def test_functions_of_the_older_api_are_tools_as_they_were_sent(
    client: FlaskClient, backend: FakeBackend
) -> None:
    send(client, messages=[USER], functions=[FULL["function"]])
    words, tool = words_of("whole tools"), {"type": "function", "function": FULL["function"]}
    assert prompt_ids(words, backend.requests[0]) == expected_ids(words, [USER], [tool])


def test_every_path_that_takes_a_chat_keeps_the_tools(client: FlaskClient, backend: FakeBackend) -> None:
    chat = body_for(CHATS, tools=[FULL])
    for path, body in [(CHATS, chat), ("/invocations", chat), ("/vertex", {"instances": [chat]})]:
        send(client, path, **body)
        (tool,) = backend.requests[-1].tools
        assert json.dumps(tool.definition) == json.dumps(FULL)  # in the client's order


@pytest.mark.parametrize("path", ["/tokenize", "/chat_tokenize"])
def test_the_tokens_of_a_chat_are_those_of_its_tools_as_they_were_sent(
    client: FlaskClient, backend: FakeBackend, path: str
) -> None:
    requests: list[GenerationRequest] = []
    tokenize = backend.tokenize
    backend.tokenize = lambda request: requests.append(request) or tokenize(request)  # type: ignore
    send(client, path, messages=[USER], tools=[FULL])
    assert [tool.definition for tool in requests[0].tools] == [FULL]


def test_functions_without_tools_are_not_tools_of_a_tokenized_chat(client: FlaskClient) -> None:
    send(client, "/tokenize", messages=[USER], functions=[FULL["function"]])
