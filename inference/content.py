"""The content of a chat message: a string, or parts as in OpenAI's content lists.

Plain values only. The only kind of part is text: a further kind is a class in MessagePart, and a case here.
"""

from collections.abc import Iterable
from dataclasses import dataclass

TEXT_TYPES = ("text", "input_text", "output_text")  # of a part, in OpenAI's JSON


@dataclass(frozen=True, slots=True)
class TextPart:
    text: str


MessagePart = TextPart
MessageContent = str | tuple[MessagePart, ...]  # empty content is "": a tuple has text


def content_of(message_parts: Iterable[MessagePart]) -> MessageContent:
    """The content of a message with these parts."""
    content = tuple(message_parts)
    return content if any(each.text for each in content) else ""


def parts_of(content: MessageContent) -> tuple[MessagePart, ...]:
    return (TextPart(content),) if isinstance(content, str) else content


def content_text(content: MessageContent) -> str:
    """The text of all parts, concatenated."""
    return content if isinstance(content, str) else "".join(each.text for each in content)


def concatenate(first: MessageContent, second: MessageContent) -> MessageContent:
    """Both contents as one. The texts that meet become one part: a template may strip each part."""
    if isinstance(first, str) and isinstance(second, str):
        return first + second
    *start, last = parts_of(first)
    first_part, *rest = parts_of(second)
    return *start, TextPart(last.text + first_part.text), *rest


def join_contents(*contents: MessageContent) -> MessageContent:
    """The contents that are not empty, separated by empty lines. The texts that meet become one part."""
    non_empty = [content for content in contents if content]
    if all(isinstance(content, str) for content in non_empty):
        return "\n\n".join(map(content_text, non_empty))
    runs: list[list[str]] = [[]]  # the texts of each part
    for content in non_empty:
        first_part, *rest = parts_of(content)
        runs[-1].append(first_part.text)
        runs += [[each.text] for each in rest]
    return tuple(TextPart("\n\n".join(run)) for run in runs)
