"""Chat templates of tests, and their rendering."""

import copy

from inference.types import Message, Tool
from tests.text.text_template import TextTemplate
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
CONTENT_PARTS = (
    "{% for m in messages %}<{{ m.role }}>{% for part in m.content %}{{ part.text }}{% endfor %}{% endfor %}"
    "<assistant>"
)
FIRST_SYSTEM_ONLY = (
    "{% if messages[0].role == 'system' %}<system>{{ messages[0].content }}{% endif %}"
    "{% for m in messages if m.role != 'system' %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
)
TOOLED = (
    "{% if tools %}<tools>{{ tools | tojson }}{% endif %}"
    "{% for m in messages %}<{{ m.role }}>{% if m.tool_calls %}"
    "{% if m.tool_calls | length > 1 %}{{ raise_exception('one call at once') }}{% endif %}"
    "{% if m.tool_calls[0].id | length != 9 %}{{ raise_exception('ids have nine characters') }}{% endif %}"
    "{{ m.tool_calls[0].function | tojson }}{% else %}{{ m.content }}{% endif %}{% endfor %}<assistant>"
)
WEATHER = Tool("weather", "of a city", {"type": "object", "properties": {"city": {"type": "string"}}})
SYSTEM, ASK, SAY = Message("system", "Be brief."), Message("user", "Hi"), Message("assistant", "Ho")


def chat(template: str | None) -> TextTemplate:
    words = copy.copy(tokenizer("byte-level"))
    words.chat_template = template
    return TextTemplate(words)
