"""Templates of the kinds that models come with, cut down to what they differ in."""

import copy
from dataclasses import replace
from typing import Any

import pytest

from inference.errors import BadRequest
from inference.text.chat import Chat
from inference.text.toolcalls import ToolCalls
from inference.text.tools import describe, write
from inference.types import CallDelta, Message, Template, Tool, ToolCall, ToolFormat
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


@pytest.mark.parametrize("arguments", ["[1]", "{", "1", "[" * 100_000, '{"a":' * 200 + "1" + "}" * 200])
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


CLOSED = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% if not enable_thinking | default(true) %}<no-thought>"
    "{% endif %}{% endif %}"
)
CONTINUED = Template(continues=True)


def test_a_conversation_may_end_with_its_last_message() -> None:
    assert chat(CLOSED).render([ASK], template=Template(opens=False)) == "<user>Hi</user>"
    assert chat(None).render([ASK], template=Template(opens=False)) == "User: Hi\n\n"


@pytest.mark.parametrize("opens", [True, False])
def test_the_last_message_may_be_left_open(opens: bool) -> None:
    template = Template(opens=opens, continues=True)
    assert chat(CLOSED).render([ASK, SAY], template=template) == "<user>Hi</user><assistant>Ho"
    assert chat(None).render([ASK, SAY], template=template) == "User: Hi\n\nAssistant: Ho"


@pytest.mark.parametrize("kind", [CLOSED, FREE, FORGETFUL, PARTS, None])
@pytest.mark.parametrize("text", ["", " so ", "Ho ", "CONTINUE_FINAL_MESSAGE_TAG", "a\n"])
def test_what_is_left_open_ends_as_it_was_written(kind: str | None, text: str) -> None:
    told = chat(kind).render([SYSTEM, ASK, Message("assistant", text)], template=CONTINUED)
    assert told.endswith(text)
    assert "Be brief." in told


@pytest.mark.parametrize("last", [ASK, SYSTEM, TOOL_TALK[2]])
@pytest.mark.parametrize("kind", [CLOSED, None])
def test_only_the_assistants_message_can_be_continued(kind: str | None, last: Message) -> None:
    with pytest.raises(BadRequest, match="must end with a message of the assistant's"):
        chat(kind).render([ASK, last], template=CONTINUED)


def test_a_template_that_leaves_the_message_out_cannot_continue_it() -> None:
    with pytest.raises(BadRequest, match="refused by the model's chat template") as caught:
        chat("{{ messages[0].content }}").render(
            [ASK, SAY, Message("assistant", "x" * 5000)], template=CONTINUED
        )
    assert len(caught.value.message) < 500


def test_a_template_gets_its_arguments() -> None:
    template = Template(arguments={"enable_thinking": False})
    assert chat(CLOSED).render([ASK], template=template).endswith("<assistant><no-thought>")
    documents = Template(arguments={"documents": [{"title": "t", "text": "d"}]})
    assert chat("{{ documents[0].text }}").render([ASK], template=documents) == "d"


@pytest.mark.parametrize(
    "name",
    ["tokenize", "messages", "conversation", "chat_template", "self", "tools", "add_generation_prompt"],
)
def test_an_argument_that_is_the_servers_is_refused(name: str) -> None:
    with pytest.raises(BadRequest, match=f"must not set '{name}'") as caught:
        chat(CLOSED).render([ASK], template=Template(arguments={name: 1}))
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
def test_hostile_arguments_do_no_harm(arguments: dict[str, Any]) -> None:
    try:
        told = chat(CLOSED).render([ASK], template=Template(arguments=arguments))
    except BadRequest:
        return
    assert told.startswith("<user>Hi</user>")
