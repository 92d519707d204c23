"""Messages that not every template takes: calls that max_tokens cut, reasoning, unusual roles."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from inference.content import MessageContent, TextPart
from inference.errors import BadRequest
from inference.text.tool_prompt import UNPARSED_ARGUMENTS
from inference.types import Message, ToolCall, ToolFormat
from tests.text.templates import ASK, CONTENT_PARTS, FREE, SAY, STRICT, WEATHER, chat

CALLS = (
    "{% for m in messages %}<{{ m.role }}>{% for call in m.tool_calls or [] %}"
    "[{{ call.function.name }} {{ call.function.arguments ARGUMENTS }}]{% else %}{{ m.content }}{% endfor %}"
    "{% endfor %}<assistant>"
)
AS_TEXT = CALLS.replace("ARGUMENTS", "if call.function.arguments is string else 'no text'")
AS_JSON = CALLS.replace("ARGUMENTS", "| tojson")
AS_ITEMS = CALLS.replace(
    "{{ call.function.arguments ARGUMENTS }}", "{{ call.function.arguments | items | list }}"
)
TRUNCATED = '{"city": "Par'
NO_OBJECTS = ["[1]", "{", "1", "[" * 100_000, '{"a":' * 200 + "1" + "}" * 200]


def render(template: str | None, *messages_and_tools: Any) -> str:
    return chat(template).render(*messages_and_tools).text


def cut_call(arguments: str = TRUNCATED) -> Sequence[Message]:
    call = Message("assistant", "", tool_calls=(ToolCall("call_1", "weather", arguments),))
    return (Message("user", "Rain?"), call, Message("tool", "No city", tool_call_id="call_1"))


def test_a_call_that_max_tokens_cut_is_text_for_a_template_that_writes_text() -> None:
    assert render(AS_TEXT, cut_call()) == (
        f"<user>Rain?<assistant>[weather {TRUNCATED}]<tool>No city<assistant>"
    )
    assert json.dumps(TRUNCATED) in render(AS_JSON, cut_call())


def test_a_call_that_max_tokens_cut_is_an_object_for_a_template_that_reads_its_members() -> None:
    rendered = render(AS_ITEMS, cut_call())
    assert (
        rendered
        == f"<user>Rain?<assistant>[weather {[(UNPARSED_ARGUMENTS, TRUNCATED)]}]<tool>No city<assistant>"
    )


@pytest.mark.parametrize("tool_format", ["json", "function_tag", "python_list"])
def test_a_call_that_max_tokens_cut_is_written_for_a_template_without_calls(tool_format: ToolFormat) -> None:
    rendered = render(FREE, cut_call(), [WEATHER], tool_format)
    assert UNPARSED_ARGUMENTS in rendered
    assert "Par" in rendered


@pytest.mark.parametrize("template", [AS_TEXT, AS_JSON, AS_ITEMS, FREE, STRICT, CONTENT_PARTS, None])
@pytest.mark.parametrize("arguments", NO_OBJECTS)
def test_arguments_that_are_no_object_do_not_end_the_conversation(
    template: str | None, arguments: str
) -> None:
    assert arguments[:80] in render(template, cut_call(arguments)).replace('\\"', '"')


def test_whole_arguments_are_objects_next_to_those_that_were_cut() -> None:
    rome = ToolCall("call_0", "weather", '{"city": "Rome"}')
    both = [Message("user", "Rain?"), Message("assistant", "", tool_calls=(rome, *cut_call()[1].tool_calls))]
    rendered = render(AS_JSON, both)
    assert f'[weather {{"city": "Rome"}}][weather {json.dumps(TRUNCATED)}]' in rendered


TURNS = "{% for m in messages %}<{{ m.role }}>BEFORE{{ m.content }}{% endfor %}<assistant>"
THOUGHT = Message("assistant", "Ho", reasoning="Hm")


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
def test_a_template_gets_reasoning_in_the_field_that_it_reads(field: str) -> None:
    before = f"{{% if m.{field} %}}<think>{{{{ m.{field} }}}}</think>{{% endif %}}"
    template = TURNS.replace("BEFORE", before)
    assert (
        render(template, [ASK, THOUGHT, ASK]) == "<user>Hi<assistant><think>Hm</think>Ho<user>Hi<assistant>"
    )
    assert render(template, [ASK, SAY, ASK]) == "<user>Hi<assistant>Ho<user>Hi<assistant>"


THINKING_PARTS = (
    "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}"
    "{% elif part.type == 'thinking' %}[{{ part.thinking }}]"
    "{% else %}{{ raise_exception('unknown part') }}{% endif %}{% endfor %}{% endif %}{% endfor %}<assistant>"
)


@pytest.mark.parametrize("content", ["Ho", (TextPart("H"), TextPart("o"))])
def test_a_template_that_writes_thinking_parts_gets_reasoning_as_a_part(content: MessageContent) -> None:
    message = Message("assistant", content, reasoning="Hm")
    assert render(THINKING_PARTS, [ASK, message, ASK]) == "<user>Hi<assistant>[Hm]Ho<user>Hi<assistant>"


NO_REASONING = TURNS.replace(
    "BEFORE", "{% if m.reasoning_content %}{{ raise_exception('no reasoning') }}{% endif %}"
)

JSON_CONTENT = (
    "{% for m in messages %}<{{ m.role }}>"
    "{{ m.content if m.content is string else m.content | tojson }}{% endfor %}<assistant>"
)


@pytest.mark.parametrize("template", [FREE, CONTENT_PARTS, NO_REASONING, JSON_CONTENT])
def test_reasoning_is_left_out_for_a_template_that_does_not_render_it(template: str) -> None:
    assert render(template, [ASK, THOUGHT, ASK]) == "<user>Hi<assistant>Ho<user>Hi<assistant>"


CRITICS = (
    "{% for m in messages %}{% if m.role in ['user', 'assistant', 'critic'] %}<{{ m.role }}>{{ m.content }}"
)
SILENT = CRITICS + "{% endif %}{% endfor %}<assistant>"
LOUD = CRITICS + "{% else %}{{ raise_exception('no such role') }}{% endif %}{% endfor %}<assistant>"


@pytest.mark.parametrize("template", [SILENT, LOUD, FREE, CONTENT_PARTS])
def test_a_role_of_the_template_is_rendered(template: str) -> None:
    rendered = render(template, [ASK, SAY, Message("critic", "Weak"), ASK])
    assert rendered == "<user>Hi<assistant>Ho<critic>Weak<user>Hi<assistant>"


@pytest.mark.parametrize("template", [SILENT, LOUD])
def test_a_role_that_the_template_omits_or_refuses_is_named(template: str) -> None:
    with pytest.raises(BadRequest) as caught:
        render(template, [ASK, Message("critic", "Weak"), Message("bob", "Hi")])
    assert caught.value.field == "messages[2].role"
    assert caught.value.message.endswith("that the model's chat template renders, got 'bob'")


def test_roles_whose_order_the_template_refuses_are_named() -> None:
    first_only = (
        "{% for m in messages %}{% if m.role == 'critic' and not loop.first %}"
        "{{ raise_exception('critic must be first') }}{% endif %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    )
    assert render(first_only, [Message("critic", "Weak"), ASK]) == "<critic>Weak<user>Hi"
    with pytest.raises(BadRequest, match=r"\(they have the role 'critic'\): critic must be first"):
        render(first_only, [ASK, Message("critic", "Weak")])
