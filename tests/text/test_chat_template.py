"""Templates of the kinds that models have, reduced to their differences."""

from dataclasses import replace
from typing import Any

import pytest

from inference.errors import BadRequest
from inference.events import CallDelta
from inference.text.tool_parsers.stream import ToolParser
from inference.text.tool_prompt import describe_tools, write_calls
from inference.types import Message, TemplateOptions, ToolCall, ToolFormat
from tests.text.templates import (
    ASK,
    CONTENT_PARTS,
    FIRST_SYSTEM_ONLY,
    FREE,
    SAY,
    STRICT,
    SYSTEM,
    TOOLED,
    WEATHER,
    chat,
)

PARIS = ToolCall("call_0123456789", "weather", '{"city": "Paris"}')
TOOL_TALK = (
    Message("user", "Rain?"),
    Message("assistant", "", tool_calls=(PARIS,)),
    Message("tool", "sunny", tool_call_id=PARIS.id),
)


def test_the_models_own_template_is_used_if_it_has_one() -> None:
    assert chat(FREE).text([SYSTEM, ASK]) == "<system>Be brief.<user>Hi<assistant>"
    assert (chat(FREE).fallback_reason, chat(FREE).stops) == ("", ())


def test_without_a_template_turns_are_plain_text() -> None:
    plain = chat(None)
    assert plain.text([SYSTEM, ASK, SAY, ASK]) == (
        "System: Be brief.\n\nUser: Hi\n\nAssistant: Ho\n\nUser: Hi\n\nAssistant:"
    )
    assert "no chat template" in plain.fallback_reason
    assert "\nUser:" in plain.stops


def test_a_system_message_that_the_template_refuses_is_put_before_the_first_user_message() -> None:
    assert chat(STRICT).text([SYSTEM, ASK]) == "<user>Be brief.\n\nHi<assistant>"


def test_adjacent_messages_of_one_role_are_merged_if_turns_must_alternate() -> None:
    rendered = chat(STRICT).text([ASK, ASK, SAY, SAY, ASK])
    assert rendered == "<user>Hi\n\nHi<assistant>Ho\n\nHo<user>Hi<assistant>"


def test_a_conversation_that_the_assistant_begins_gets_an_empty_user_turn_first() -> None:
    assert chat(STRICT).text([SAY, ASK]) == "<user><assistant>Ho<user>Hi<assistant>"


def test_a_system_message_that_the_template_ignores_is_moved_to_the_front() -> None:
    assert chat(FIRST_SYSTEM_ONLY).text([ASK, SYSTEM, SAY, ASK]) == (
        "<system>Be brief.<user>Hi<assistant>Ho<user>Hi<assistant>"
    )


def test_a_single_system_message_becomes_a_user_message() -> None:
    assert chat(STRICT).text([SYSTEM]) == "<user>Be brief.<assistant>"


def test_contents_are_lists_of_parts_if_the_template_needs_them() -> None:
    assert chat(CONTENT_PARTS).text([SYSTEM, ASK]) == "<system>Be brief.<user>Hi<assistant>"


def test_a_template_that_supports_tools_describes_them_itself() -> None:
    rendered = chat(TOOLED).text([ASK], [WEATHER])
    assert rendered.startswith('<tools>[{"type": "function", "function": {"name": "weather"')
    assert chat(TOOLED).text([ASK]) == "<user>Hi<assistant>"


@pytest.mark.parametrize("template", [FREE, STRICT, FIRST_SYSTEM_ONLY, CONTENT_PARTS, None])
def test_tools_are_described_for_a_template_without_tool_support(template: str | None) -> None:
    rendered = chat(template).text([SYSTEM, ASK], [WEATHER])
    assert describe_tools([WEATHER], "json") in rendered
    assert rendered.index("of a city") < rendered.index("Be brief.") < rendered.index("Hi")


@pytest.mark.parametrize("tool_format", ["function_tag", "python_list"])
def test_a_requested_format_describes_tools_in_place_of_the_template(tool_format: ToolFormat) -> None:
    rendered = chat(TOOLED).text(TOOL_TALK, [WEATHER], tool_format)
    assert "<tools>" not in rendered
    assert describe_tools([WEATHER], tool_format) in rendered
    assert write_calls([PARIS], tool_format) in rendered


def test_calls_and_results_go_through_a_template_that_supports_them() -> None:
    rendered = chat(TOOLED).text([replace(turn, tool_call_id=None) for turn in TOOL_TALK])
    assert rendered == (
        '<user>Rain?<assistant>{"name": "weather", "arguments": {"city": "Paris"}}<tool>sunny<assistant>'
    )


def test_calls_that_a_template_cannot_render_are_written_as_text() -> None:
    rendered = chat(TOOLED).text(
        [TOOL_TALK[0], Message("assistant", "", tool_calls=(PARIS, PARIS)), TOOL_TALK[2]]
    )
    call = '{"name": "weather", "parameters": {"city": "Paris"}}'
    assert rendered == f"<user>Rain?<assistant>{call}; {call}<user>Result of weather:\nsunny<assistant>"


@pytest.mark.parametrize("template", [FREE, STRICT, FIRST_SYSTEM_ONLY, CONTENT_PARTS, None])
def test_calls_and_results_reach_a_template_without_tool_support(template: str | None) -> None:
    rendered = chat(template).text(TOOL_TALK)
    assert '{"name": "weather", "parameters": {"city": "Paris"}}' in rendered
    assert "Result of weather:\nsunny" in rendered


def test_a_template_that_refuses_every_message_says_why() -> None:
    stubborn = chat("{{ raise_exception('no chats today') }}")
    with pytest.raises(BadRequest, match="messages are refused by the model's chat template: no chats today"):
        stubborn.text([ASK])


def test_a_template_cannot_reach_out_of_its_sandbox() -> None:
    escaping = chat("{{ messages.__class__.__mro__[1].__subclasses__() }}")
    with pytest.raises(BadRequest, match="unsafe"):
        escaping.text([ASK])


@pytest.mark.parametrize("tool_format", ["json", "function_tag", "python_list"])
def test_written_calls_are_parsed_as_the_same_calls(tool_format: ToolFormat) -> None:
    calls = [
        PARIS,
        ToolCall("b", "weather", '{"city": "Zürich \\"x\\"", "days": [1, null, true, {"a": -2.5}]}'),
    ]
    reader = ToolParser([WEATHER])
    items = [*reader.feed(write_calls(calls, tool_format)), *reader.flush()]
    deltas = [item for item in items if isinstance(item, CallDelta)]
    assert items == deltas
    assert write_calls([ToolCall(d.id, d.name, d.arguments) for d in deltas], tool_format) == write_calls(
        calls, tool_format
    )


CLOSED = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% if not enable_thinking | default(true) %}<no-thought>"
    "{% endif %}{% endif %}"
)
CONTINUED = TemplateOptions(continue_final_message=True)


def test_a_conversation_may_end_with_its_last_message() -> None:
    assert (
        chat(CLOSED).text([ASK], template=TemplateOptions(add_generation_prompt=False)) == "<user>Hi</user>"
    )
    assert chat(None).text([ASK], template=TemplateOptions(add_generation_prompt=False)) == "User: Hi\n\n"


@pytest.mark.parametrize("opens", [True, False])
def test_the_last_message_may_be_continued(opens: bool) -> None:
    template = TemplateOptions(add_generation_prompt=opens, continue_final_message=True)
    assert chat(CLOSED).text([ASK, SAY], template=template) == "<user>Hi</user><assistant>Ho"
    assert chat(None).text([ASK, SAY], template=template) == "User: Hi\n\nAssistant: Ho"


@pytest.mark.parametrize("kind", [CLOSED, FREE, FIRST_SYSTEM_ONLY, CONTENT_PARTS, None])
@pytest.mark.parametrize("text", ["", " so ", "Ho ", "CONTINUE_FINAL_MESSAGE_TAG", "a\n"])
def test_a_continued_message_ends_with_its_own_text(kind: str | None, text: str) -> None:
    rendered = chat(kind).text([SYSTEM, ASK, Message("assistant", text)], template=CONTINUED)
    assert rendered.endswith(text)
    assert "Be brief." in rendered


@pytest.mark.parametrize("options", [TemplateOptions(), CONTINUED])
@pytest.mark.parametrize("kind", [FREE, STRICT, None])
def test_a_conversation_without_messages_is_refused(kind: str | None, options: TemplateOptions) -> None:
    with pytest.raises(BadRequest, match="must hold at least one message"):
        chat(kind).text([], template=options)


@pytest.mark.parametrize("last", [ASK, SYSTEM, TOOL_TALK[2]])
@pytest.mark.parametrize("kind", [CLOSED, None])
def test_only_the_assistants_message_can_be_continued(kind: str | None, last: Message) -> None:
    with pytest.raises(BadRequest, match="must end with a message of the assistant"):
        chat(kind).text([ASK, last], template=CONTINUED)


def test_a_template_that_omits_the_last_message_cannot_continue_it() -> None:
    with pytest.raises(BadRequest, match="refused by the model's chat template") as caught:
        chat("{{ messages[0].content }}").text(
            [ASK, SAY, Message("assistant", "x" * 5000)], template=CONTINUED
        )
    assert len(caught.value.message) < 500


def test_a_template_gets_its_arguments() -> None:
    template = TemplateOptions(arguments={"enable_thinking": False})
    assert chat(CLOSED).text([ASK], template=template).endswith("<assistant><no-thought>")
    documents = TemplateOptions(arguments={"documents": [{"title": "t", "text": "d"}]})
    assert chat("{{ documents[0].text }}").text([ASK], template=documents) == "d"


@pytest.mark.parametrize(
    ("template", "rendered"),
    [
        (TemplateOptions(), ""),
        (TemplateOptions(reasoning_effort="low"), "low True True"),
        (TemplateOptions(reasoning_effort="none"), "none False False"),
        (TemplateOptions(arguments={"thinking": False}, reasoning_effort="low"), "low True False"),
    ],
)
def test_an_effort_sets_the_switches_that_the_arguments_leave(
    template: TemplateOptions, rendered: str
) -> None:
    source = "{% if reasoning_effort is defined %}{{ reasoning_effort }} {{ enable_thinking }} {{ thinking }}"
    assert chat(source + "{% endif %}").text([ASK], template=template) == rendered


@pytest.mark.parametrize(
    "name",
    ["tokenize", "messages", "conversation", "chat_template", "self", "tools", "add_generation_prompt"],
)
def test_an_argument_that_the_server_sets_is_refused(name: str) -> None:
    with pytest.raises(BadRequest, match=f"must not set '{name}'") as caught:
        chat(CLOSED).text([ASK], template=TemplateOptions(arguments={name: 1}))
    assert caught.value.field == "chat_template_kwargs"


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "arguments",
    [
        {"documents": 5},
        {"documents": [1]},
        {"enable_thinking": nested(5000)},
        {"bos_token": {}},
        {"": 1, "a b": 2, "loop": 3, "kwargs": 4, "args": 5, "raise_exception": 6, "range": 7},
        {"messages ": 1, "environment": 1, "context": {}, "template": "x", "name": "y"},
    ],
)
def test_hostile_arguments_cause_no_error_or_a_bad_request(arguments: dict[str, Any]) -> None:
    try:
        rendered = chat(CLOSED).text([ASK], template=TemplateOptions(arguments=arguments))
    except BadRequest:
        return
    assert rendered.startswith("<user>Hi</user>")
