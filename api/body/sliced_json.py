"""Decodes JSON in sections, so that other threads get Python's lock in between.

One call of the parser holds the lock until it has created all values: 40 ms for 131,000 keys. A section ends
at a comma between two values. The brackets that are open there are closed behind it and opened again before
the next section, whose values are then added to the lists and objects that were open. Knows no limits.
"""

import secrets
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from inference.untrusted_json import MAX_LEVELS

SECTION_BYTES = 1 << 15  # a section has about as many: at most a millisecond of the parser
MAX_CUTS = 4  # commas that are tried in each SECTION_BYTES
QUOTE, BACKSLASH, COMMA = b'"', b"\\", b","
PAIRS = {b"[": b"]", b"{": b"}"}
TYPES = {b"[": list, b"{": dict}
NO_BRACKETS = bytes(set(range(256)) - set(b'"[]{}'))
TOKEN_BYTES = 16  # of a key that stands for all earlier ones: no client can guess it


class NotDivisible(Exception):
    """The JSON is faulty, or the parser must see it in one piece."""


class JsonSection(NamedTuple):
    """data[start:stop] of a JSON. open_before, open_after: the brackets that are open there"""

    start: int
    stop: int
    open_before: bytes
    open_after: bytes


def decode(data: bytes) -> Any:
    """The value of a JSON. Raises what msgspec.json.decode raises."""
    if len(data) > SECTION_BYTES:
        try:
            return decode_sections(data)
        except (NotDivisible, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass  # the parser says what is wrong, and where
    return msgspec.json.decode(data)


def decode_sections(data: bytes) -> Any:
    """As decode. Raises NotDivisible, or other errors, if the data is faulty."""
    key = secrets.token_hex(TOKEN_BYTES)
    value: Any = None
    for section in sections(data):
        text = data[section.start : section.stop]
        decoded = msgspec.json.decode(reopened(section.open_before, key) + text + closed(section.open_after))
        if section.open_before:
            append(value, decoded, section.open_before, key)
        else:
            value = decoded
    return value


def sections(data: bytes) -> Iterator[JsonSection]:
    """All of `data`, without the commas between two sections. Raises NotDivisible."""
    start, position, in_string = 0, 0, False
    open_before = open_now = b""
    while position + SECTION_BYTES < len(data):
        chunk = data[position : end_of_slice(data, position, SECTION_BYTES)]
        comma = last_comma(chunk, in_string)
        if comma < 0:
            open_now, in_string = open_brackets(open_now, chunk, in_string)
            position += len(chunk)
        else:
            open_now, in_string = open_brackets(open_now, chunk[:comma], in_string)
            if not open_now:
                raise NotDivisible
            yield JsonSection(start, position + comma, open_before, open_now)
            start = position = position + comma + 1
            open_before = open_now
    yield JsonSection(start, len(data), open_before, b"")


def end_of_slice(data: bytes, start: int, num_bytes: int) -> int:
    """The end of the slice that begins at `start`: it does not part an escape from its character."""
    stop = start + num_bytes
    if stop >= len(data):
        return len(data)
    num_backslashes = num_bytes - len(data[start:stop].rstrip(BACKSLASH))
    return stop - num_backslashes % 2


def without_escapes(section: bytes) -> bytes:
    """`section` without the escapes that contain a quote, or look as if they escaped one."""
    return section.replace(rb"\\", b"").replace(rb"\"", b"") if BACKSLASH in section else section


def last_comma(chunk: bytes, in_string: bool) -> int:
    """The index of one of the last commas outside of strings; -1: none of those tried is."""
    if in_string and QUOTE not in without_escapes(chunk):
        return -1
    end = len(chunk)
    for _ in range(MAX_CUTS):
        comma = chunk.rfind(COMMA, 0, end)
        if comma < 0 or (without_escapes(chunk[:comma]).count(QUOTE) + in_string) % 2 == 0:
            return comma
        end = max(0, chunk.rfind(QUOTE, 0, comma))  # its string begins here, or before
    return -1


def open_brackets(before: bytes, chunk: bytes, in_string: bool) -> tuple[bytes, bool]:
    """(the brackets that are open after a chunk, outermost first; whether a string is open).

    Raises NotDivisible for a wrong bracket.
    """
    between_quotes = without_escapes(chunk).translate(None, NO_BRACKETS).split(QUOTE)
    outside, levels = b"".join(between_quotes[in_string::2]), 0
    while levels < MAX_LEVELS and (b"[]" in outside or b"{}" in outside):
        levels += 1
        outside = outside.replace(b"[]", b"").replace(b"{}", b"")
    opening = outside.lstrip(b"]}")
    closing = outside[: len(outside) - len(opening)]
    num_open = len(before) - len(closing)
    if num_open < 0 or closed(before[num_open:]) != closing or set(opening) - set(b"[{"):
        raise NotDivisible
    if num_open + len(opening) > MAX_LEVELS:
        raise NotDivisible
    return before[:num_open] + opening, in_string ^ (len(between_quotes) % 2 == 0)


def reopened(brackets: bytes, key: str) -> bytes:
    """What stands before a section, in place of the values that `brackets` have so far."""
    openings = {b"[": b"[", b"{": b'{"%s":' % key.encode()}
    return b"".join(openings[each] for each in singly(brackets[:-1])) + brackets[-1:]


def closed(brackets: bytes) -> bytes:
    return b"".join(PAIRS[each] for each in singly(brackets[::-1]))


def singly(brackets: bytes) -> Iterator[bytes]:
    return (brackets[index : index + 1] for index in range(len(brackets)))


def append(value: Any, decoded: Any, brackets: bytes, key: str) -> None:
    """Add to the open lists and objects of `value` what the next section has for them.

    Raises NotDivisible where they are others than those that were open.
    """
    for bracket in singly(brackets[:-1]):
        check_type(value, bracket)
        last = next(reversed(value.values())) if isinstance(value, dict) else value[-1]
        continued = decoded.pop(key if isinstance(decoded, dict) else 0)
        extend(value, decoded)
        value, decoded = last, continued
    check_type(value, brackets[-1:])
    if not decoded:
        raise NotDivisible
    extend(value, decoded)


def check_type(value: Any, bracket: bytes) -> None:
    """A repeated key can hide what was open, and a comma can stand where a value is missing."""
    if not value or not isinstance(value, TYPES[bracket]):
        raise NotDivisible


def extend(value: Any, decoded: Any) -> None:
    if isinstance(value, dict):
        value.update(decoded)
    else:
        value.extend(decoded)
