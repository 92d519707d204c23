"""Parser combinators for text that arrives one character at a time.

A Parser is a generator that receives characters by `send`, raises NotAToolCall at the first one that does not
match, and returns the parsed value. A special token is received as one item, see special(). Knows quotes and
brackets; knows no format.
"""

import json
from collections.abc import Callable, Collection, Generator
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
Parser = Generator[None, str, T]

CLOSING = {"{": "}", "[": "]", "(": ")"}
MAX_DEPTH = 64
SPECIAL = "\0"  # begins the item of a special token, which has no characters


class NotAToolCall(Exception):
    """The characters received are ordinary text."""


def special(name: str) -> str:
    """What a parser receives for a special token of this name."""
    return SPECIAL + name


def is_special(item: str) -> bool:
    return len(item) > 1


def next_nonspace() -> Parser[str]:
    """The next character that is not white space."""
    while (char := (yield)).isspace():
        pass
    return char


def expect_text(text: str) -> Parser[None]:
    for char in text:
        expect((yield) == char)


def one_of(first_char: str, texts: Collection[str]) -> Parser[str]:
    """The one of `texts` that starts with first_char, in characters or as a special token of this name."""
    if is_special(first_char):
        expect(first_char.removeprefix(SPECIAL) in texts)
        return first_char.removeprefix(SPECIAL)
    text = first_char
    while text not in texts:
        expect(any(candidate.startswith(text) for candidate in texts))
        text += yield
    return text


def identifier(first_char: str, names: Collection[str]) -> Parser[tuple[str, str]]:
    """(the longest prefix of one of `names`, the character after it)"""
    text, char = "", first_char
    while any(candidate.startswith(text + char) for candidate in names):
        text += char
        char = yield
    return text, char


def until(end: str) -> Parser[str]:
    """The text before `end`, which may be a special token."""
    text: list[str] = []
    while "".join(text[-len(end) :]) != end:
        if (char := (yield)) == special(end):
            return "".join(text)
        expect(not is_special(char))
        text.append(char)
    return "".join(text[: -len(end)])


def quoted_text(quote: str) -> Parser[str]:
    """The raw text of a string after its opening quote, with the closing quote."""
    text = []
    char = ""
    while char != quote:
        text.append(char := (yield))
        expect(not is_special(char))
        if char == "\\":
            text.append((yield))
    return "".join(text)


def bracketed_text(opening: str, quotes: str) -> Parser[str]:
    """The text from an opening bracket, which has been received, to its closing bracket."""
    text = [opening]
    closing = [CLOSING[opening]]
    while closing:
        text.append(char := (yield))
        expect(not is_special(char))
        if char in quotes:
            text.append((yield from quoted_text(char)))
        elif char in CLOSING:
            closing.append(CLOSING[char])
            expect(len(closing) <= MAX_DEPTH)
        elif char in ")]}":
            expect(char == closing.pop())
    return "".join(text)


def tee(parser: Parser[T], on_char: Callable[[str], None]) -> Parser[T]:
    """`parser`, with `on_char` called for each character that it accepts."""
    next(parser)
    while True:
        char = yield
        try:
            parser.send(char)
        except StopIteration as end:
            on_char(char)
            return end.value
        on_char(char)


def json_string() -> Parser[str]:
    """The value of a JSON string, after its opening quote."""
    return json_value('"' + (yield from quoted_text('"')))


def json_object() -> Parser[str]:
    """The text of a JSON object, after its opening bracket."""
    text = yield from bracketed_text("{", '"')
    expect(isinstance(json_value(text), dict))
    return text


def json_value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        refuse()


def json_text(value: Any) -> str:
    """A dict as JSON. Escapes non-ASCII characters only if a lone surrogate makes the text unencodable."""
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
        raise NotAToolCall


def refuse(*_: object) -> NoReturn:
    raise NotAToolCall
