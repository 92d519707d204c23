"""Parses a large JSON file once for a library that reads it several times in a row.

transformers reads a tokenizer.json for its added tokens and again for its vocabulary, 0.1 s each.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from typing import Any, TextIO

import msgspec

LARGE = "model"  # the section of a tokenizer.json with the vocabulary: no reader changes it

_parsed: ContextVar[dict[str, Any] | None] = ContextVar("parsed", default=None)


@contextmanager
def parsed_once() -> Iterator[None]:
    """Let `load` keep what it parses until the end of the context."""
    token = _parsed.set({})
    try:
        yield
    finally:
        _parsed.reset(token)


def load(file: TextIO, **options: Any) -> Any:
    """As json.load, in less time. Readers share the LARGE section alone."""
    parsed = _parsed.get()
    if parsed is None or options:
        return json.load(file, **options)
    if file.name not in parsed:
        parsed[file.name] = parse(file.read())
    value = parsed[file.name]
    if not isinstance(value, dict):
        return deepcopy(value)
    return {name: each if name == LARGE else deepcopy(each) for name, each in value.items()}


def parse(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):  # json.loads accepts more, such as NaN and half surrogate pairs
        return json.loads(text)
