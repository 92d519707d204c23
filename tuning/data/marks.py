"""Marks find a place in a rendered text: put in before the chat template renders, taken out afterwards."""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import accumulate

from inference.types import Message

Span = tuple[int, int]

START, END = "\U000f8a01", "\U000f8a02"  # for private use: in no text and in no template
MARK = re.compile(f"([{START}{END}])")


def mark_contents(messages: Sequence[Message], indices: Collection[int]) -> list[Message]:
    """The messages, of which these have marks around their content, without the spaces at its ends.

    Contents that are empty or have parts stay as they are.
    """
    return [mark_content(message) if i in indices else message for i, message in enumerate(messages)]


def mark_content(message: Message) -> Message:
    content = message.content
    if not isinstance(content, str) or not content.strip():
        return message
    stripped = content.strip()
    before, _, behind = content.partition(stripped)
    return replace(message, content=f"{before}{START}{stripped}{END}{behind}")


def spans_of_marks(marked_text: str, text: str) -> list[Span] | None:
    """Positions of the marks in the text without them; None if the texts differ in more than marks."""
    fragments = MARK.split(marked_text)
    texts, marks = fragments[::2], fragments[1::2]
    if "".join(texts) != text or marks != [START, END] * (len(marks) // 2):
        return None
    positions = list(accumulate(map(len, texts)))
    return list(zip(positions[::2], positions[1::2], strict=False))
