"""Templates of the kinds that models come with, cut down to what they differ in."""

import copy
from dataclasses import replace

import pytest

from inference.errors import BadRequest
from inference.text.chat import Chat
from inference.text.toolcalls import ToolCalls
from inference.text.tools import describe, write
from inference.types import CallDelta, Message, Tool, ToolCall, ToolFormat
from tests.text.tokenizers_of_three_kinds import tokenizer

FREE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
STRICT = (
    "{% for m in messages %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('not in turn') }}{% endif %}"
    "<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
)
FORGETFUL = (
    "{% if messages[0].role == 'system' %}<system>{{ messages[0].content }}{% endif %}"
    "{% for m in messages if m.role != 'system' %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
)
PARTS = (
    "{% for m in messages %}<{{ m.role }}>{% for part in m.content %}{{ part.text }}{% endfor %}{% endfor %}"
    "<assistant>"
)
TOOLED = (
    "{% if tools %}<tools>{{ tools | tojson }}{% endif %}"
    "{% for m in messages %}<{{ m.role }}>{% if m.tool_calls %}"
    "{% if m.tool_calls | length > 1 %}{{ raise_exception('one call at once') }}{% endif %}"
    "{% if m.tool_calls[0].id | length != 9 %}{{ raise_exception('ids have nine characters') }}{% endif %}"
    "{{ m.tool_calls[0].function | tojson }}{% else %}{{ m.content }}{% endif %}{% endfor %}<assistant>"
)

WEATHER = Tool("weather", "of a city", {"type": "object", "properties": {"city": {"type": "string"}}})
PARIS = ToolCall("call_0123456789", "weather", '{"city": "Paris"}')
SYSTEM, ASK, SAY = Message("system", "Be brief."), Message("user", "Hi"), Message("assistant", "Ho")
TOOL_TALK = (
    Message("user", "Rain?"),
    Message("assistant", "", tool_calls=(PARIS,)),
    Message("tool", "sunny", tool_call_id=PARIS.id),
)


def chat(template: str | None) -> Chat:
    words = copy.copy(tokenizer("byte-level"))
    words.chat_template = template
    return Chat(words)


def test_the_models_own_template_is_used_where_it_has_one() -> None:
    assert chat(FREE).render([SYSTEM, ASK]) == "<system>Be brief.<user>Hi<assistant>"
    assert (chat(FREE).why, chat(FREE).stops) == ("", ())


def test_without_a_template_turns_are_written_plainly() -> None:
    plain = chat(None)
    assert plain.render([SYSTEM, ASK, SAY, ASK]) == (
        "System: Be brief.\n\nUser: Hi\n\nAssistant: Ho\n\nUser: Hi\n\nAssistant:"
    )
    assert "no chat template" in plain.why
    assert "\nUser:" in plain.stops


def test_a_refused_system_message_begins_the_first_users() -> None:
    assert chat(STRICT).render([SYSTEM, ASK]) == "<user>Be brief.\n\nHi<assistant>"


def test_neighbours_of_one_role_are_merged_where_turns_must_alternate() -> None:
    told = chat(STRICT).render([ASK, ASK, SAY, SAY, ASK])
    assert told == "<user>Hi\n\nHi<assistant>Ho\n\nHo<user>Hi<assistant>"


def test_a_conversation_that_the_assistant_opens_gets_an_empty_turn_before() -> None:
    assert chat(STRICT).render([SAY, ASK]) == "<user><assistant>Ho<user>Hi<assistant>"


def test_a_system_message_passed_over_is_moved_to_where_it_is_not() -> None:
    assert chat(FORGETFUL).render([ASK, SYSTEM, SAY, ASK]) == (
        "<system>Be brief.<user>Hi<assistant>Ho<user>Hi<assistant>"
    )


def test_a_system_message_alone_is_what_the_user_says() -> None:
    assert chat(STRICT).render([SYSTEM]) == "<user>Be brief.<assistant>"


def test_contents_come_in_parts_where_the_template_wants_them() -> None:
    assert chat(PARTS).render([SYSTEM, ASK]) == "<system>Be brief.<user>Hi<assistant>"


def test_a_template_that_knows_tools_describes_them_itself() -> None:
    told = chat(TOOLED).render([ASK], [WEATHER])
    assert told.startswith('<tools>[{"type": "function", "function": {"name": "weather"')
    assert chat(TOOLED).render([ASK]) == "<user>Hi<assistant>"


@pytest.mark.parametrize("template", [FREE, STRICT, FORGETFUL, PARTS, None])
def test_tools_are_described_for_a_template_that_knows_none(template: str | None) -> None:
    told = chat(template).render([SYSTEM, ASK], [WEATHER])
    assert describe([WEATHER], "json") in told
    assert told.index("of a city") < told.index("Be brief.") < told.index("Hi")


@pytest.mark.parametrize("form", ["function_tag", "python_list"])
def test_a_format_of_their_own_describes_tools_in_place_of_the_template(form: ToolFormat) -> None:
    told = chat(TOOLED).render(TOOL_TALK, [WEATHER], form)
    assert "<tools>" not in told
    assert describe([WEATHER], form) in told
    assert write([PARIS], form) in told


def test_calls_and_results_go_through_a_template_that_knows_them() -> None:
    told = chat(TOOLED).render([replace(turn, tool_call_id=None) for turn in TOOL_TALK])
    assert told == (
        '<user>Rain?<assistant>{"name": "weather", "arguments": {"city": "Paris"}}<tool>sunny<assistant>'
    )


def test_what_a_template_cannot_say_of_calls_is_said_in_words() -> None:
    told = chat(TOOLED).render(
        [TOOL_TALK[0], Message("assistant", "", tool_calls=(PARIS, PARIS)), TOOL_TALK[2]]
    )
    call = '{"name": "weather", "parameters": {"city": "Paris"}}'
    assert told == f"<user>Rain?<assistant>{call}; {call}<user>Result of weather:\nsunny<assistant>"


@pytest.mark.parametrize("template", [FREE, STRICT, FORGETFUL, PARTS, None])
def test_calls_and_results_reach_a_template_that_knows_none(template: str | None) -> None:
    told = chat(template).render(TOOL_TALK)
    assert '{"name": "weather", "parameters": {"city": "Paris"}}' in told
    assert "Result of weather:\nsunny" in told


def test_a_template_that_takes_nothing_says_why() -> None:
    stubborn = chat("{{ raise_exception('no chats today') }}")
    with pytest.raises(BadRequest, match="messages are refused by the model's chat template: no chats today"):
        stubborn.render([ASK])


def test_a_template_cannot_reach_out_of_its_sandbox() -> None:
    escaping = chat("{{ messages.__class__.__mro__[1].__subclasses__() }}")
    with pytest.raises(BadRequest, match="unsafe"):
        escaping.render([ASK])


@pytest.mark.parametrize("arguments", ["[1]", "{", "1", "[" * 100_000])
def test_arguments_that_are_no_object_are_refused(arguments: str) -> None:
    turn = Message("assistant", "", tool_calls=(ToolCall("call_1", "weather", arguments),))
    with pytest.raises(BadRequest, match="arguments are not a JSON object"):
        chat(TOOLED).render([ASK, turn])


@pytest.mark.parametrize("form", ["json", "function_tag", "python_list"])
def test_what_is_written_of_calls_is_read_as_those_calls(form: ToolFormat) -> None:
    calls = [
        PARIS,
        ToolCall("b", "weather", '{"city": "Zürich \\"x\\"", "days": [1, null, true, {"a": -2.5}]}'),
    ]
    reader = ToolCalls([WEATHER])
    told = [*reader.feed(write(calls, form)), *reader.flush()]
    deltas = [piece for piece in told if isinstance(piece, CallDelta)]
    assert told == deltas
    assert write([ToolCall(d.id, d.name, d.arguments) for d in deltas], form) == write(calls, form)
