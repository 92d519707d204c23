"""Parser of Gemma 4's calls, <|tool_call>call:f{a:<|"|>text<|"|>,b:[1,true]}<tool_call|>.

Keys and values are those of JSON, but text stands between <|"|>, which is a special token in some tokenizers.
"""

from typing import Any

from inference.text.tool_parsers.emitter import ToolCallEmitter
from inference.text.tool_parsers.scanner import (
    MAX_DEPTH,
    SPECIAL,
    NotAToolCall,
    Parser,
    expect,
    expect_text,
    identifier,
    is_special,
    json_text,
    json_value,
    next_nonspace,
    one_of,
    until,
)

QUOTE = '<|"|>'
END_OF_SCALAR = ",]}"
ValueAndNext = tuple[Any, str]  # a value, and the character after it that is not white space


def parse_gemma_call(emitter: ToolCallEmitter) -> Parser[None]:
    """The rest of a call after "<|tool_call>"."""
    expect((yield from next_nonspace()) == "c")
    yield from expect_text("all:")
    name, char = yield from identifier((yield), emitter.tools)
    expect(name in emitter.tools and char == "{")
    emitter.emit_call(name, json_text((yield from members(1))))


def members(depth: int) -> Parser[dict[str, Any]]:
    """The members of an object, up to its closing bracket."""
    expect(depth <= MAX_DEPTH)
    values: dict[str, Any] = {}
    char = yield from next_nonspace()
    while char != "}":
        key = (yield from text_or_key(char)).strip()
        values[key], char = yield from value((yield from next_nonspace()), depth)
        char = yield from next_in_list(char, "}")
    return values


def text_or_key(first_char: str) -> Parser[str]:
    """A key and the colon after it; the key may be between quotes."""
    if first_char in (QUOTE[0], SPECIAL + QUOTE):
        yield from one_of(first_char, (QUOTE,))
        key = yield from until(QUOTE)
        expect((yield from next_nonspace()) == ":")
        return key
    expect(not is_special(first_char) and first_char != ":")
    return first_char + (yield from until(":"))


def value(first_char: str, depth: int) -> Parser[ValueAndNext]:
    if first_char == "{":
        return (yield from members(depth + 1)), (yield from next_nonspace())
    if first_char == "[":
        return (yield from elements(depth + 1)), (yield from next_nonspace())
    if first_char in (QUOTE[0], SPECIAL + QUOTE):
        yield from one_of(first_char, (QUOTE,))
        return (yield from until(QUOTE)), (yield from next_nonspace())
    return (yield from scalar(first_char))


def elements(depth: int) -> Parser[list[Any]]:
    """The elements of a list, up to its closing bracket."""
    expect(depth <= MAX_DEPTH)
    values: list[Any] = []
    char = yield from next_nonspace()
    while char != "]":
        element, char = yield from value(char, depth)
        values.append(element)
        char = yield from next_in_list(char, "]")
    return values


def next_in_list(char: str, closing: str) -> Parser[str]:
    """The closing bracket, or what follows a comma."""
    if char == closing:
        return char
    expect(char == ",")
    return (yield from next_nonspace())


def scalar(first_char: str) -> Parser[ValueAndNext]:
    """A number or a constant; text without quotes is text."""
    text, char = "", first_char
    while char not in END_OF_SCALAR:
        expect(not is_special(char))
        text += char
        char = yield
    expect(bool(text))
    try:
        return json_value(text), char
    except NotAToolCall:
        return text.strip(), char
