"""Finds the answers that a chat template marks itself, with {% generation %} … {% endgeneration %}.

The same template with a mark in place of each tag is rendered in the sandbox, and the marks are taken out
again. Knows no roles and no token ids.
"""

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

from inference.errors import BadRequest
from inference.text.chat_template import ChatTemplate
from inference.types import Message, TemplateOptions, Tool
from tuning.data.marks import END, START, Span, spans_of_marks

TAG = re.compile(r"\{%([-+]?)\s*(end)?generation\s*([-+]?)%\}")


class GenerationBlocks:
    """The answers in conversations that `chat_template` renders. A template without blocks has none."""

    def __init__(self, chat_template: ChatTemplate) -> None:
        source = chat_template.tokenizer.chat_template
        self.exist = TAG.search(str(source)) is not None
        if self.exist:
            tokenizer = copy.copy(chat_template.tokenizer)
            tokenizer.chat_template = with_marks(source)
            self._marking_template = ChatTemplate(tokenizer)

    def find(
        self, messages: Sequence[Message], tools: Sequence[Tool], template: TemplateOptions, text: str
    ) -> list[Span] | None:
        """The span of each block in the text that the chat template renders.

        None if there are no blocks, or if the text with marks differs in more than the marks.
        """
        if not self.exist:
            return None
        try:
            marked_text = self._marking_template.render(messages, tools, None, template).text
        except BadRequest:
            return None
        return spans_of_marks(marked_text, text)


def with_marks(source: Any) -> Any:
    """The template, or each of several by name, with marks in place of the tags."""
    if isinstance(source, Mapping):
        return {name: with_marks(template) for name, template in source.items()}
    return TAG.sub(mark_block, source)


def mark_block(tag: re.Match[str]) -> str:
    """A block that writes a mark: around a block Jinja drops the same spaces as around the tag."""
    mark = END if tag[2] else START
    return f"{{%{tag[1]} if true %}}{mark}{{% endif {tag[3]}%}}"
