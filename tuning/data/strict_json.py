"""JSON of rows to train on: what a lenient parser would change silently is refused here.

Refuses NaN, Infinity, numbers beyond 64 bits, a key given twice, halves of surrogate pairs, and more than 100
levels.
"""

import json
import math
import re
from collections.abc import Iterator
from json import JSONDecodeError
from typing import Any, NoReturn

from inference.errors import short
from inference.untrusted_json import TooDeep, check_levels

MAX_SHOWN_CHARS = 40  # of a name or a number in an error
MAX_DIGITS = 19  # of a 64-bit integer
SPACE = re.compile(r"[ \t\r\n]*")


class InvalidJson(ValueError):
    """A text that is not JSON. Its message continues a sentence that begins with the place.

    start   character at which the value begins that cannot be read
    is_cut  the text ends within that value
    """

    def __init__(self, rule: str, start: int, *, is_cut: bool = False) -> None:
        super().__init__(rule)
        self.start = start
        self.is_cut = is_cut


def parse_row_json(text: str) -> Any:
    """The value of a JSON text. Raises InvalidJson."""
    value, end = decode_at(text, skip_space(text, 0))
    end = skip_space(text, end)
    if end < len(text):
        raise InvalidJson(f"is not JSON: more text follows the value, at character {end + 1}", end)
    return value


def array_items(text: str) -> Iterator[tuple[int, Any]]:
    """Each item of a JSON array, and where it begins. Raises InvalidJson."""
    position = skip_space(text, 0)
    if not text.startswith("[", position):
        raise InvalidJson("must begin a JSON array of objects with [", position)
    is_empty = text.startswith("]", skip_space(text, position + 1))
    while not is_empty and text[position : position + 1] in ("[", ","):
        start = skip_space(text, position + 1)
        value, end = decode_at(text, start)
        yield start, value
        position = skip_space(text, end)
    end = skip_space(text, position + 1) if is_empty else position
    if text[end:].rstrip() != "]":
        raise InvalidJson("is not JSON: behind the row, the array must go on with a comma or end with ]", end)


def decode_at(text: str, start: int) -> tuple[Any, int]:
    """The value that begins at `start`, and where it ends. Raises InvalidJson."""
    try:
        value, end = DECODER.raw_decode(text, start)
        check_levels(value)
        if "\\ud" in text[start:end].lower():
            check_surrogates(value)
    except (RecursionError, TooDeep):
        raise InvalidJson(f"is not JSON that can be trained on: {TooDeep()}", start) from None
    except JSONDecodeError as error:
        is_cut = not text[error.pos :].strip() or error.msg.startswith("Unterminated string")
        rule = f"is not JSON: {error.msg} at character {error.pos - start + 1}"
        raise InvalidJson(rule, start, is_cut=is_cut) from None
    except ValueError as error:  # of the functions below
        raise InvalidJson(f"is not JSON that can be trained on: {error}", start) from None
    return value, end


def skip_space(text: str, start: int) -> int:
    space = SPACE.match(text, start)
    assert space is not None
    return space.end()


def check_surrogates(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])
        raise ValueError(f"{half} is half of a surrogate pair: write both halves, or the character") from None


def refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number: use null, or leave the key out")


def finite_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {short(text, MAX_SHOWN_CHARS)} is too large for 64 bits")
    return value


def small_int(text: str) -> int:
    if len(text.lstrip("-")) > MAX_DIGITS:
        raise ValueError(f"the number {short(text, MAX_SHOWN_CHARS)} is too large for 64 bits")
    return int(text)


def unique_keys(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object with these members. Raises ValueError for a key that is given twice."""
    values = dict(members)
    if len(values) < len(members):
        names: set[str] = set()
        for name, _ in members:
            if name in names:
                raise ValueError(f"the key {short(name, MAX_SHOWN_CHARS)} is given twice: leave one out")
            names.add(name)
    return values


DECODER = json.JSONDecoder(
    parse_constant=refuse_constant,
    parse_float=finite_float,
    parse_int=small_int,
    object_pairs_hook=unique_keys,
)
