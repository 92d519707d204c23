"""The JSON bodies of requests and responses.

A request's body is parsed once and strictly: input that JSON parsers read differently raises BadRequest. A
response can contain any text that a model generates. Does not know what the fields mean.
"""

import json
import math
import re
from collections import Counter
from typing import Any, NoReturn, TypeVar

import msgspec
import orjson
from flask import g, request
from werkzeug.exceptions import UnsupportedMediaType

from api.body import large_json
from api.body.large_json import WHOLE_BODY, refuse, refuse_depth
from inference import untrusted_json
from inference.errors import BadRequest, TooLarge
from inference.struct_types import ready

MIMETYPE = "application/json"
ACCEPTED_MIMETYPES = ("json", "text/plain", "application/x-www-form-urlencoded", "application/octet-stream")
FIELD_PATH = re.compile(r" - at `(?:key in )?\$\.?(?P<path>[^`]*)`$")
FIELD_RULES = (
    (re.compile(r"Object missing required field `(.+)`"), "is required"),
    (re.compile(r"Object contains unknown field `(.+)`"), "is not a field of this request"),
)
MAX_MESSAGE_CHARS = 300
MESSAGE_PREFIXES = (("Expected ", "must be "), ("Invalid ", "has the invalid "))

T = TypeVar("T")


def read_struct(struct_type: type[T], strict: bool = True) -> T:
    """The body as a msgspec struct. Raises BadRequest with the field's path, e.g. messages[0].role.

    With strict=False, numbers and booleans may be strings.
    """
    return to_struct(read(), struct_type, strict)


def to_struct(value: Any, struct_type: type[T], strict: bool = True) -> T:
    """Convert a parsed `value` to a struct. Raises BadRequest with the field's path."""
    try:
        return msgspec.convert(value, ready(struct_type), strict=strict)
    except msgspec.ValidationError as error:
        raise _to_bad_request(str(error)) from None


def _to_bad_request(message: str) -> BadRequest:
    """Split msgspec's message into a field and the rule that the field breaks."""
    location = FIELD_PATH.search(message)
    path, message = (location["path"] if location else ""), shorten(FIELD_PATH.sub("", message))
    for pattern, rule in FIELD_RULES:
        if field := pattern.fullmatch(message):
            return BadRequest(f"{path}.{field[1]}".lstrip("."), rule)
    for prefix, replacement in MESSAGE_PREFIXES:
        if message.startswith(prefix):
            message = replacement + message.removeprefix(prefix)
    return BadRequest(path or WHOLE_BODY, message)


def shorten(message: str) -> str:
    """The message without most of a long name or value of the client's."""
    return message if len(message) <= MAX_MESSAGE_CHARS else f"{message[:MAX_MESSAGE_CHARS]}…"


def read() -> Any:
    """The body as Python objects; parsed at the first call of a request, even if it is invalid.

    Raises BadRequest; TooLarge if it has too many values; UnsupportedMediaType if it is compressed, or
    neither it nor its type is JSON.
    """
    if "body_error" in g:
        raise g.body_error
    if "body" not in g:
        try:
            g.body = _read_json()
        except (BadRequest, TooLarge, UnsupportedMediaType) as error:
            g.body_error = error
            raise
    return g.body


def check_encoding() -> None:
    """Raise UnsupportedMediaType for a compressed body."""
    if (request.content_encoding or "identity") != "identity":
        raise UnsupportedMediaType(
            f"Content-Encoding {request.content_encoding[:80]} is not supported: send the body uncompressed"
        )


def _read_json() -> Any:
    check_encoding()
    try:
        return parse(request.get_data(cache=False))
    except BadRequest:
        kind = request.mimetype
        if kind and not any(name in kind for name in ACCEPTED_MIMETYPES):
            raise UnsupportedMediaType(
                f"Content-Type {kind[:80]} is not supported: send application/json"
            ) from None
        raise


def parse(data: bytes) -> Any:
    """Parse JSON in UTF-8.

    Raises BadRequest for NaN, infinities, lone surrogates, repeated keys, or nesting deeper than MAX_LEVELS;
    TooLarge for more values than large_json.LIMITS.
    """
    if len(data) > large_json.LARGE_BYTES:
        return large_json.parse_large(data)
    if len(data) > large_json.COUNTED_BYTES:
        large_json.check_counts(data)
    if not data.strip():
        refuse("is empty: send a JSON object")
    try:
        text = data.decode("utf-8-sig")
        del data  # the last reference: the bytes of a large body are freed
        value = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_parse_float,
            object_pairs_hook=_object_without_repeats,
        )
        if text.count("[") + text.count("{") > untrusted_json.MAX_LEVELS:
            untrusted_json.check_levels(value)
    except UnicodeDecodeError as error:
        refuse(f"is not UTF-8: byte {error.start} is invalid")
    except json.JSONDecodeError as error:
        refuse(
            f"is not JSON: {error.msg[:1].lower()}{error.msg[1:]} at line {error.lineno} column {error.colno}"
        )
    except (RecursionError, untrusted_json.TooDeep):
        refuse_depth()
    except ValueError:  # from int(): Python limits the digits of an integer
        refuse("contains an integer with too many digits")
    if "\\u" in text:
        _check_surrogates(value)
    return value


def _refuse_constant(name: str) -> NoReturn:
    refuse(f"contains {name}, which is not JSON")


def _parse_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        refuse(f"contains the number {digits[:20]}, which is too large for a float")
    return number


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        ((repeated, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise BadRequest(repeated[:80], "is repeated in one object")
    return value


def _check_surrogates(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        refuse("contains a lone surrogate: send both halves of the pair, or UTF-8")


def encode(value: Any) -> bytes:
    """The JSON of `value`. Bytes are already JSON and pass unchanged.

    NaN and infinities become null, lone surrogates become U+FFFD.
    """
    if isinstance(value, bytes):
        return value
    try:
        return orjson.dumps(value, default=msgspec.to_builtins)
    except TypeError:
        return msgspec.json.encode(_replace_surrogates(msgspec.to_builtins(value)))


def _replace_surrogates(value: Any) -> Any:
    """`value` with U+FFFD for lone surrogates. Integers over 64 bits stay: msgspec encodes them."""
    match value:
        case str():
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case dict():
            return {_replace_surrogates(key): _replace_surrogates(item) for key, item in value.items()}
        case list() | tuple():
            return [_replace_surrogates(item) for item in value]
        case _:
            return value
