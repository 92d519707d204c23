"""A request's JSON body, read once and strictly: what two readers could understand differently is refused.

Knows JSON and msgspec's structs; what the fields mean is the dialect's. Every fault is a BadRequest.
"""

import json
import math
import re
from collections import Counter
from typing import Any, NoReturn, TypeVar

import msgspec
from flask import g, request
from werkzeug.exceptions import UnsupportedMediaType

from inference import foreign
from inference.errors import BadRequest

PLAIN = ("json", "text/plain", "application/x-www-form-urlencoded", "application/octet-stream")
PLACE = re.compile(r" - at `(?:key in )?\$\.?(?P<path>[^`]*)`$")
NAMED = (
    (re.compile(r"Object missing required field `(.+)`"), "is required"),
    (re.compile(r"Object contains unknown field `(.+)`"), "is not a field of this request"),
)
OPENINGS = (("Expected ", "must be "), ("Invalid ", "has the invalid "))

T = TypeVar("T")


def decode(shape: type[T], strict: bool = True) -> T:
    """The body as a msgspec struct; BadRequest names the field by its path: messages[0].role.

    Not strict: numbers and booleans may come as text.
    """
    return shaped(read(), shape, strict)


def shaped(value: Any, shape: type[T], strict: bool = True) -> T:
    """`value`, which was read, as a struct; raises as `decode` does."""
    try:
        return msgspec.convert(value, shape, strict=strict)
    except msgspec.ValidationError as error:
        raise _said_of_field(str(error)) from None


def _said_of_field(message: str) -> BadRequest:
    """msgspec's message, as a rule of the field it is about."""
    place = PLACE.search(message)
    path, message = (place["path"] if place else ""), PLACE.sub("", message)
    for pattern, rule in NAMED:
        if named := pattern.fullmatch(message):
            return BadRequest(f"{path}.{named[1]}".lstrip("."), rule)
    for opening, words in OPENINGS:
        if message.startswith(opening):
            message = words + message.removeprefix(opening)
    return BadRequest(path or "the body", message)


def read() -> Any:
    """The body as plain Python objects; read once a request, however many ask."""
    if "body" not in g:
        g.body = _read()
    return g.body


def _read() -> Any:
    if (request.content_encoding or "identity") != "identity":
        raise UnsupportedMediaType("Content-Encoding is not understood here: send the body uncompressed")
    try:
        return parse(request.get_data())
    except BadRequest:
        kind = request.mimetype
        if kind and not any(name in kind for name in PLAIN):
            raise UnsupportedMediaType(f"Content-Type {kind} is not understood here: send JSON") from None
        raise


def parse(data: bytes) -> Any:
    """JSON without NaN, infinities, lone surrogates, repeated keys, or more than foreign.LEVELS."""
    if not data.strip():
        _refuse("is empty: send a JSON object")
    try:
        text = data.decode("utf-8-sig")
        value = json.loads(
            text, parse_constant=_constant, parse_float=_finite, object_pairs_hook=_without_repeats
        )
        foreign.check_levels(value)
    except UnicodeDecodeError as error:
        _refuse(f"is not UTF-8: byte {error.start} is wrong")
    except json.JSONDecodeError as error:
        _refuse(f"is not JSON: {_lower(error.msg)} at line {error.lineno} column {error.colno}")
    except (RecursionError, foreign.TooDeep):
        _refuse(f"is nested deeper than {foreign.LEVELS} levels")
    except ValueError:  # Python's limit on the digits of an integer
        _refuse("holds an integer of too many digits")
    if "\\u" in text:
        _check_surrogates(value)
    return value


def _refuse(rule: str) -> NoReturn:
    raise BadRequest("the body", rule)


def _constant(name: str) -> NoReturn:
    _refuse(f"holds {name}, which is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        _refuse(f"holds {digits[:20]}, a number too large")
    return number


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        ((repeated, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise BadRequest(repeated[:80], "stands twice in one object")
    return value


def _check_surrogates(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        _refuse("holds half a character: a surrogate without its other half")


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
