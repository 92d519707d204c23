"""Contents of several parts in the templates of models, reduced to what they do with the content."""

import copy

import pytest

from inference.content import TextPart, content_text
from inference.types import Message, Role, TemplateOptions, Tool, ToolCall
from tests.text.text_template import TextTemplate
from tests.text.tokenizers_of_three_kinds import tokenizer

ROLE_AND_CONTENT = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
# Mistral: adds strings.
ADDING = "{% for m in messages %}{{ '[' + m['role'] + ']' + m['content'] }}{% endfor %}"
# Llama 3.1: a filter that turns a list into its text.
TRIMMING = "{% for m in messages %}<{{ m.role }}>{{ m['content'] | trim }}{% endfor %}"
# Llama 3.1, results of tools.
TO_JSON = "{% for m in messages %}<{{ m.role }}>{{ m.content | tojson }}{% endfor %}"
# Qwen 3: a list is omitted.
OMITTING = (
    "{% for m in messages %}{% set content = m.content if m.content is string else '' %}"
    "<{{ m.role }}>{{ content }}{% endfor %}"
)
# SmolVLM, Idefics: takes lists only.
LISTS_ONLY = (
    "{% for m in messages %}{{ m['role'] | capitalize }}"
    "{% if m['content'][0]['type'] == 'image' %}:{% else %}: {% endif %}"
    "{% for line in m['content'] %}{% if line['type'] == 'text' %}{{ line['text'] }}{% endif %}{% endfor %}"
    "<end>{% endfor %}"
)
# Llama 4, Qwen2-VL.
EITHER = (
    "{% for m in messages %}<{{ m.role }}>{% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for part in m['content'] %}{% if part['type'] == 'text' %}{{ part['text'] | trim }}{% endif %}"
    "{% endfor %}{% endif %}{% endfor %}"
)
# Gemma 3: of a system message only the first part, before the user's text.
GEMMA = (
    "{% if messages[0].role == 'system' %}"
    "{% if messages[0].content is string %}{% set prefix = messages[0].content + '\\n\\n' %}"
    "{% else %}{% set prefix = messages[0].content[0].text + '\\n\\n' %}{% endif %}"
    "{% set messages = messages[1:] %}{% endif %}"
    "{% for m in messages %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('not in turn') }}{% endif %}"
    "<{{ m.role }}>{{ prefix if loop.first else '' }}"
    "{% if m.content is string %}{{ m.content | trim }}{% else %}"
    "{% for item in m.content %}{{ item.text | trim }}{% endfor %}{% endif %}{% endfor %}"
)
# Qwen2.5-VL with tools: the system message is written elsewhere.
SYSTEM_WITH_TOOLS = (
    "{% if tools %}{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}"
    "{{ tools | tojson }}{% endif %}{% for m in messages %}"
    "<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for part in m.content %}({{ part.text }}){% endfor %}{% endif %}{% endfor %}"
)
# MiniMax M2: each part of a tool's message is a result of its own.
RESULTS = (
    "{% for m in messages %}<{{ m.role }}>{% for call in m.tool_calls %}{{ call.function.name }}{% endfor %}"
    "{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for result in m.content %}<result>{{ result.text }}</result>{% endfor %}{% endif %}{% endfor %}"
)
STRING_TEMPLATES = [ROLE_AND_CONTENT, ADDING, TRIMMING, TO_JSON, OMITTING, None]

SYSTEM = Message("system", (TextPart("Be "), TextPart("brief.")))
ASK = Message("user", (TextPart("Is it "), TextPart("so?")))
SAY = Message("assistant", (TextPart("It "), TextPart("is.")))
TALK = [SYSTEM, ASK, SAY, Message("user", "Why?")]
WEATHER = Tool("weather", "of a city", {"type": "object", "properties": {}})
CALL = Message(
    "assistant", (TextPart("Let me "), TextPart("see.")), tool_calls=(ToolCall("1", "weather", "{}"),)
)
RESULT = Message("tool", (TextPart("sun "), TextPart("and rain")), tool_call_id="1")


def chat(template: str | None) -> TextTemplate:
    byte_tokenizer = copy.copy(tokenizer("byte-level"))
    byte_tokenizer.chat_template = template
    return TextTemplate(byte_tokenizer)


def as_strings(messages: list[Message]) -> list[Message]:
    return [Message(m.role, content_text(m.content), m.name, m.tool_calls, m.tool_call_id) for m in messages]


@pytest.mark.parametrize(
    ("template", "roles"),
    [
        *((template, set()) for template in STRING_TEMPLATES),
        (LISTS_ONLY, {"system", "user", "assistant", "tool"}),
        (EITHER, {"system", "user", "assistant", "tool"}),
        (RESULTS, {"system", "user", "assistant", "tool"}),
        (GEMMA, {"user", "assistant"}),
    ],
)
def test_the_roles_whose_content_a_template_iterates_over_are_detected(
    template: str | None, roles: set[Role]
) -> None:
    assert chat(template).features.part_roles[False] == roles


@pytest.mark.parametrize("template", STRING_TEMPLATES)
@pytest.mark.parametrize("messages", [TALK, [SYSTEM, ASK, CALL, RESULT], [ASK, ASK], [SAY, ASK, SYSTEM]])
def test_parts_are_one_text_for_a_template_that_takes_strings(
    template: str | None, messages: list[Message]
) -> None:
    assert chat(template).text(messages) == chat(template).text(as_strings(messages))
    assert chat(template).text(messages, [WEATHER]) == chat(template).text(as_strings(messages), [WEATHER])


def test_a_template_gets_the_parts_that_it_iterates_over() -> None:
    assert chat(EITHER).text(TALK) == "<system>Bebrief.<user>Is itso?<assistant>Itis.<user>Why?"
    assert chat(LISTS_ONLY).text(TALK) == (
        "System: Be brief.<end>User: Is it so?<end>Assistant: It is.<end>User: Why?<end>"
    )


@pytest.mark.parametrize("template", [EITHER, GEMMA, LISTS_ONLY, RESULTS])
def test_a_string_is_rendered_as_before_by_a_template_that_iterates(template: str) -> None:
    rendered = chat(template).text(as_strings(TALK))
    assert "Be brief." in rendered and "Is it so?" in rendered and "It is." in rendered


def test_a_role_whose_parts_would_be_lost_gets_one_text() -> None:
    assert chat(GEMMA).text(TALK) == "<user>Be brief.\n\nIs itso?<assistant>Itis.<user>Why?"


def test_messages_that_are_merged_keep_their_parts() -> None:
    two_users = [ASK, Message("user", (TextPart("No? "), TextPart("Yes?")))]
    assert chat(GEMMA).text(two_users) == "<user>Is itso?\n\nNo?Yes?"


def test_the_parts_of_a_system_message_that_becomes_a_users_are_kept() -> None:
    refuses_system = "{% for m in messages if m.role == 'system' %}{{ raise_exception('no') }}{% endfor %}"
    assert chat(refuses_system + EITHER).text([SYSTEM, ASK]) == "<user>Bebrief.\n\nIs itso?"


def test_a_message_may_have_parts_without_tools_and_be_one_text_with_them() -> None:
    assert chat(SYSTEM_WITH_TOOLS).text([SYSTEM, ASK]) == "<system>(Be )(brief.)<user>(Is it )(so?)"
    rendered = chat(SYSTEM_WITH_TOOLS).text([SYSTEM, ASK], [WEATHER])
    assert rendered.startswith('Be brief.[{"type": "function"')
    assert rendered.endswith("<system>Be brief.<user>(Is it )(so?)")


def test_a_result_has_parts_and_the_content_of_a_call_is_one_text() -> None:
    assert chat(RESULTS).text([ASK, CALL, RESULT]) == (
        "<user><result>Is it </result><result>so?</result><assistant>weatherLet me see."
        "<tool><result>sun </result><result>and rain</result>"
    )


def test_a_result_keeps_its_parts_as_a_message_of_the_user() -> None:
    assert chat(EITHER).text([ASK, CALL, RESULT]).endswith("<user>Result of weather:\nsunand rain")


def test_a_message_of_parts_may_be_continued() -> None:
    options = TemplateOptions(continue_final_message=True)
    assert chat(EITHER).text([ASK, SAY], template=options) == "<user>Is itso?<assistant>Itis."
    assert chat(ROLE_AND_CONTENT).text([ASK, SAY], template=options) == "<user>Is it so?<assistant>It is."
