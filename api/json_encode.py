"""Encodes values as JSON. Any text that a model generates can be encoded.

NaN and infinities become null, lone surrogates become U+FFFD. Bytes are already JSON and pass unchanged.
"""

from typing import Any

import msgspec
import orjson

MIMETYPE = "application/json"


def encode(value: Any) -> bytes:
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
