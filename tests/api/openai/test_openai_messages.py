"""The messages of a chat as the backend gets them: text parts, calls, reasoning, roles."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from inference.content import MessageContent, TextPart
from inference.types import GenerationRequest, Message, ToolCall
from tests.api.openai.app_requests import CHATS, RESPONSES, USER, get_response
from tests.fakes.fake_backend import FakeBackend


@pytest.fixture
def ask(client: FlaskClient, backend: FakeBackend) -> Any:
    def requested(path: str, **fields: Any) -> GenerationRequest:
        get_response(client, path, **fields)
        return backend.requests[-1]

    return requested


def test_a_conversation_is_passed_on_message_by_message(ask: Any) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    request = ask(
        CHATS,
        messages=[
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Hi"}, " there"], "name": "Ann"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "2"},
            {"role": "tool", "tool_call_id": "c1", "content": None},
            {"role": "assistant", "content": "Two.", "tool_calls": None},
        ],
    )
    assert request.prompt == (
        Message("system", "Be brief."),
        Message("user", (TextPart("Hi"), TextPart(" there")), "Ann"),
        Message("assistant", "", tool_calls=(ToolCall("c1", "f", '{"a": 1}'),)),
        Message("tool", "2", "f", tool_call_id="c1"),
        Message("tool", "", "f", tool_call_id="c1"),
        Message("assistant", "Two."),
    )


@pytest.mark.parametrize(
    ("message", "content"),
    [
        ({"role": "user", "content": []}, ""),
        ({"role": "user", "content": [{"type": "text", "text": ""}, ""]}, ""),
        ({"role": "user", "content": [{"type": "text", "text": "Hi"}]}, (TextPart("Hi"),)),
        ({"role": "assistant", "content": [{"type": "refusal", "refusal": "No"}]}, (TextPart("No"),)),
        ({"role": "assistant", "content": [{"type": "text", "text": ""}], "refusal": "No"}, "No"),
        ({"role": "tool", "content": ["a", "b"], "tool_call_id": "c1"}, (TextPart("a"), TextPart("b"))),
    ],
)
def test_content_has_the_parts_that_the_client_sent(
    ask: Any, message: dict[str, Any], content: MessageContent
) -> None:
    assert ask(CHATS, messages=[message]).prompt[0].content == content


def test_the_output_of_a_function_has_the_parts_that_the_client_sent(ask: Any) -> None:
    output = [{"type": "input_text", "text": "rain"}, {"type": "input_text", "text": " and sun"}]
    request = ask(RESPONSES, input=[{"type": "function_call_output", "call_id": "c1", "output": output}])
    assert request.prompt[0].content == (TextPart("rain"), TextPart(" and sun"))


def assistant(content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **fields}


THINKING = {"type": "thinking", "thinking": "Hm. "}
TEXT = {"type": "text", "text": "Ho"}


@pytest.mark.parametrize(
    ("message", "content", "reasoning"),
    [
        (assistant("Ho", reasoning_content="Hm."), "Ho", "Hm."),
        (assistant("Ho", reasoning="Hm."), "Ho", "Hm."),
        (assistant("Ho", reasoning="a", reasoning_content="b"), "Ho", "b"),
        (assistant("Ho", reasoning={"effort": "low"}, reasoning_content=None), "Ho", ""),
        (assistant([THINKING, TEXT]), (TextPart("Ho"),), "Hm. "),
        (assistant([THINKING, THINKING]), "", "Hm. Hm. "),
        (
            assistant([{"type": "thinking", "thinking": [TEXT, {"type": "image"}]}, "Hi"]),
            (TextPart("Hi"),),
            "Ho",
        ),
        (assistant([{"type": "reasoning", "text": "Hm."}, TEXT]), (TextPart("Ho"),), "Hm."),
        (assistant([{"type": "redacted_thinking", "data": "x"}, TEXT]), (TextPart("Ho"),), ""),
        (assistant([THINKING, TEXT], reasoning_content="b"), (TextPart("Ho"),), "b"),
        (USER | {"content": [THINKING, TEXT], "reasoning_content": "b"}, (TextPart("Ho"),), ""),
    ],
)
def test_reasoning_is_apart_from_the_content(
    ask: Any, message: dict[str, Any], content: MessageContent, reasoning: str
) -> None:
    (parsed,) = ask(CHATS, messages=[message]).prompt
    assert (parsed.content, parsed.reasoning) == (content, reasoning)


@pytest.mark.parametrize("arguments", ["", "[", '{"city": "Par', '{"a":' * 200 + "1" + "}" * 200])
def test_the_arguments_of_an_earlier_call_are_passed_on_as_they_are(ask: Any, arguments: str) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    parsed = ask(CHATS, messages=[USER, assistant(None, tool_calls=[call])]).prompt[1]
    assert parsed.tool_calls == (ToolCall("1", "f", arguments or "{}"),)


def test_a_role_that_only_a_chat_template_knows_is_passed_on(ask: Any) -> None:
    request = ask(CHATS, messages=[USER, {"role": "critic", "content": "Weak", "name": "Ann"}])
    assert request.prompt == (Message(**USER), Message("critic", "Weak", "Ann"))
