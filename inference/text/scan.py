"""Reading text that comes one character at a time: the words that a grammar is written in.

A rule is a coroutine: it is sent characters, raises NotACall at the first that does not fit, and returns what
it has read. Knows quotes and brackets, no format.
"""

import json
from collections.abc import Callable, Generator, Iterable
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
Rule = Generator[None, str, T]

CLOSING = {"{": "}", "[": "]", "(": ")"}
MAX_DEPTH = 64
MARK = "\0"  # sent in place of a special token, which is no text


class NotACall(Exception):
    """What was read is text after all."""


def solid() -> Rule[str]:
    """The next character that is no white space."""
    while (char := (yield)).isspace():
        pass
    return char


def exactly(text: str) -> Rule[None]:
    for char in text:
        expect((yield) == char)


def word(head: str, words: Iterable[str]) -> Rule[tuple[str, str]]:
    """(the longest head of one of `words`, the character behind it)"""
    text, char = "", head
    while any(word.startswith(text + char) for word in words):
        text += char
        char = yield
    return text, char


def until(end: str) -> Rule[str]:
    """The text in front of `end`."""
    text: list[str] = []
    while "".join(text[-len(end) :]) != end:
        text.append(char := (yield))
        expect(char != MARK)
    return "".join(text[: -len(end)])


def quoted(quote: str) -> Rule[str]:
    """A string's text behind its opening quote, as it is written, with the closing one."""
    text = []
    char = ""
    while char != quote:
        text.append(char := (yield))
        expect(char != MARK)
        if char == "\\":
            text.append((yield))
    return "".join(text)


def enclosed(opening: str, quotes: str) -> Rule[str]:
    """The text from a bracket that has been read to the one that closes it."""
    text = [opening]
    closing = [CLOSING[opening]]
    while closing:
        text.append(char := (yield))
        expect(char != MARK)
        if char in quotes:
            text.append((yield from quoted(char)))
        elif char in CLOSING:
            closing.append(CLOSING[char])
            expect(len(closing) <= MAX_DEPTH)
        elif char in ")]}":
            expect(char == closing.pop())
    return "".join(text)


def overheard(rule: Rule[T], hear: Callable[[str], None]) -> Rule[T]:
    """The rule; `hear` is told each character that it takes."""
    next(rule)
    while True:
        char = yield
        try:
            rule.send(char)
        except StopIteration as end:
            hear(char)
            return end.value
        hear(char)


def json_string() -> Rule[str]:
    """What a string says, behind its opening quote."""
    return json_value('"' + (yield from quoted('"')))


def json_object() -> Rule[str]:
    """The text of an object, behind its opening bracket."""
    text = yield from enclosed("{", '"')
    expect(isinstance(json_value(text), dict))
    return text


def json_value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        refuse()


def json_text(value: Any) -> str:
    """An object as JSON; readable where it can be encoded, which half a surrogate pair cannot."""
    expect(isinstance(value, dict))
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    except (TypeError, ValueError):
        refuse()
    return text


def expect(fits: bool) -> None:
    if not fits:
        raise NotACall


def refuse(*_: object) -> NoReturn:
    raise NotACall
