"""Chat templates become texts between contents, and Go's templates; others are refused with the reason."""

import re
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from tests.tiny_models import tiny
from tuning.export.ollama import go_template, to_go
from tuning.export.turns import NotTranslatable, Turns, chat_renderer, conversation, read_turns

ROOT = Path(__file__).parents[3]
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
DEFAULT_SYSTEM = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nBe good.<|im_end|>\n{% endif %}" + CHATML
)
SYSTEM_IN_USER = (
    "{% set system = messages[0].content + '\n\n' if messages[0].role == 'system' else '' %}"
    "{% for m in messages if m.role != 'system' %}{% if m.role == 'user' %}<s>[INST] "
    "{{ system if loop.first }}{{ m.content }} [/INST]{% else %} {{ m.content }}</s>{% endif %}{% endfor %}"
)
OPENS_THOUGHTS = CHATML.replace("assistant\n{% endif", "assistant\n<think>\n{% endif")
COUNTS_TURNS = CHATML + "{{ messages | length }}"
DROPS_ANSWERS = CHATML.replace("m in messages", "m in messages if m.role == 'user'")
UPPER = CHATML.replace("m.content", "m.content | upper")


def read(template: str) -> Turns:
    tokenizer = tiny.tokenizer()
    tokenizer.chat_template = template
    return read_turns(chat_renderer(tokenizer))


GO = re.compile(
    r"\{\{ if \.System \}\}(.*)\{\{ \.System \}\}(.*)\{\{ else \}\}(.*)\{\{ end \}\}"
    r"\{\{ range \$i, \$_ := \.Messages \}\}\{\{ \$last := eq \(len \(slice \$\.Messages \$i\)\) 1 \}\}"
    r'\{\{ if eq \.Role "user" \}\}\{\{ \.Content \}\}'
    r"\{\{ if \$last \}\}(.*)\{\{ else \}\}(.*)\{\{ end \}\}"
    r'\{\{ else if eq \.Role "assistant" \}\}\{\{ \.Content \}\}(.*)\{\{ end \}\}\{\{ end \}\}',
    re.DOTALL,
)


def render_go(template: str, messages: list[dict[str, str]]) -> str:
    """What Ollama makes of the few expressions that are used: `system` apart from the other messages."""
    match = GO.fullmatch(template)
    assert match, template
    before_system, after_system, start, prompt_end, after_user, after_assistant = match.groups()
    system = "".join(message["content"] for message in messages if message["role"] == "system")
    text = before_system + system + after_system if system else start
    for i, message in enumerate(messages):
        is_last = i == len(messages) - 1
        if message["role"] == "user":
            text += message["content"] + (prompt_end if is_last else after_user)
        elif message["role"] == "assistant":
            text += message["content"] + after_assistant
    return text


@pytest.mark.parametrize("template", [CHATML, DEFAULT_SYSTEM, SYSTEM_IN_USER, OPENS_THOUGHTS])
def test_a_simple_template_is_translated(template: str) -> None:
    tokenizer = tiny.tokenizer()
    tokenizer.chat_template = template
    for messages in (
        conversation("Hi"),
        conversation("Hi", "Hello", "Bye"),
        conversation("A", "B", "C", system="Be kind."),
    ):
        expected = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        assert render_go(to_go(read(template), ""), messages) == expected


def test_the_demo_models_template_is_translated_without_its_first_token() -> None:
    tokenizer = AutoTokenizer.from_pretrained(ROOT / "models/demo")
    messages = conversation("Hi", "Hello", "Bye", system="Be kind.")
    expected = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert "<|begin_of_text|>" + render_go(go_template(tokenizer), messages) == expected


@pytest.mark.parametrize("template", [COUNTS_TURNS, DROPS_ANSWERS, UPPER])
def test_a_template_that_is_more_than_texts_is_refused(template: str) -> None:
    with pytest.raises(NotTranslatable):
        read(template)


def test_a_text_that_go_would_read_is_refused() -> None:
    with pytest.raises(NotTranslatable, match="brackets or quotes"):
        to_go(Turns("{{", "b", "c", "d", "e", "f"), "")
