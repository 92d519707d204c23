"""Parses JSON from untrusted sources: every error is a ValueError, and recursive code can walk the result.

json.loads raises RecursionError beyond about a thousand levels; recursive code fails at fewer. Model files
and requests need less than a tenth of that.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

MAX_LEVELS = 100  # of nested lists and objects
ObjectHook = Callable[[dict[str, Any]], Any]  # as in json.loads: returns the replacement of an object


class TooDeep(ValueError):
    def __init__(self) -> None:
        super().__init__(f"it is nested deeper than {MAX_LEVELS} levels")


def read_json_object(path: Path, hook: ObjectHook | None = None) -> dict[str, Any]:
    """The JSON object in a file. Raises OSError, and ValueError with the file's name in its message."""
    try:
        value = parse_json(path.read_text("utf-8"), hook)
    except ValueError as error:
        raise ValueError(f"{path.name} is not JSON that can be read: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path.name} is not a JSON object")
    return value


def parse_json(text: str | bytes, hook: ObjectHook | None = None) -> Any:
    """json.loads, which raises ValueError for any error: TooDeep beyond MAX_LEVELS levels."""
    try:
        value = json.loads(text, object_hook=hook)
    except RecursionError:
        raise TooDeep from None
    check_levels(value)
    return value


def decode_json(data: bytes | str) -> Any:
    """As parse_json, in less time and with other messages: for the many small documents of a stream."""
    try:
        value = msgspec.json.decode(data)
    except RecursionError:
        raise TooDeep from None
    opening = (b"[", b"{") if isinstance(data, bytes) else ("[", "{")
    if sum(map(data.count, opening)) > MAX_LEVELS:  # type: ignore[arg-type]
        check_levels(value)
    return value


def parse_json_object(text: str) -> dict[str, Any]:
    """parse_json, which also raises ValueError for a value other than an object."""
    value = parse_json(text)
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def check_levels(value: Any) -> None:
    """Raise TooDeep for lists and dicts nested deeper than MAX_LEVELS."""
    level, depth = [value], 1
    while level:
        if depth > MAX_LEVELS:
            raise TooDeep
        level = [child for parent in level for child in children(parent) if isinstance(child, dict | list)]
        depth += 1


def children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
