"""JSON values to bytes, without ever failing on what a model may have said.

NaN and infinities become null, lone surrogates U+FFFD. Bytes pass as they are: they are JSON already.
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
        return msgspec.json.encode(_mended(msgspec.to_builtins(value)))


def _mended(value: Any) -> Any:
    """`value` with every string fit for UTF-8; integers of any size are left to msgspec, which knows them."""
    match value:
        case str():
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case dict():
            return {_mended(key): _mended(item) for key, item in value.items()}
        case list() | tuple():
            return [_mended(item) for item in value]
        case _:
            return value
