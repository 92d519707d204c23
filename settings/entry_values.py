"""The values of an entry's keys in MODELS: each function checks one, and raises BadEntry with its rule.

where: the entry, for messages, such as "entry 2".
"""

import ast
import json
import os
from collections.abc import Mapping
from typing import Any


class BadEntry(ValueError):
    """A value of MODELS that names no models. The message is shown to the user, and has no key in it."""


def read_secret(where: str, value: Any) -> str:
    """The key itself, or the value of the environment variable that "$NAME" means."""
    if not isinstance(value, str):
        raise BadEntry(f"{where}: key must be text")
    if not value.startswith("$"):
        return value
    if not (secret := os.environ.get(value[1:], "")):
        raise BadEntry(f"{where}: key: the environment has no {value[1:]}")
    return secret


def parse_whole_number(where: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadEntry(f"{where}: max_seq_len, max_output_seq_len and max_concurrent must be whole numbers")
    return value


def parse_text(where: str, value: Any) -> str:
    return str(value)


def parse_switch(where: str, value: Any) -> bool:
    return bool(value)


def parse_names(where: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise BadEntry(f"{where}: members, fallbacks, drop and aliases must be lists of names")
    return tuple(value)


def parse_object(where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadEntry(f"{where}: headers, extra and settings must be objects")
    return value


def read_literal(text: str) -> Any:
    """The value of JSON or a Python literal. Raises ValueError."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise ValueError("neither JSON nor a Python literal") from None
