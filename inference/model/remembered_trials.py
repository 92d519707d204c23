"""Remembers on disk what trials of a model's runners showed: how exact each is, and which is the fastest.

A later load repeats a step of the proof, and tries only the fastest: proof and timing take half of a small
model's load. Knows names and numbers; not what is measured.
"""

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from inference.process.cache_folder import keep_newest, read_with_digest, write_with_digest

MAX_FILES = 64  # models and settings, of some hundred bytes each

Value = TypeVar("Value")


class RememberedErrors:
    """Errors by the names of measurements. path: names all that they follow from; None: nothing is kept."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.errors = read_values(path, float) if path else {}

    def measure(
        self, name: str, measure_all: Callable[[], float], measure_some: Callable[[], float] = lambda: 0.0
    ) -> float:
        """measure_all(), or its result at an earlier load unless measure_some(), of a part, exceeds that."""
        if name in self.errors:
            error = measure_some()
            return self.errors[name] if error <= self.errors[name] else error
        error = measure_all()
        if self.path and error == error:
            self.errors[name] = error
            write_values(self.path, self.errors)
        return error


class RememberedChoices:
    """The name of the fastest option, by a description of the options that were compared.

    path: names all else that their speeds follow from; None: nothing is remembered.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.fastest = read_values(path, str) if path else {}

    def remember(self, options: str, name: str) -> None:
        if self.path and self.fastest.get(options) != name:
            self.fastest[options] = name
            write_values(self.path, self.fastest)


def read_values(path: Path, convert: Callable[[Any], Value]) -> dict[str, Value]:
    """The values in the file by their names; none if it cannot be read."""
    with contextlib.suppress(OSError, ValueError, AttributeError, TypeError):
        values = {str(name): convert(value) for name, value in json.loads(read_with_digest(path)).items()}
        path.touch()  # it is used: keep_newest deletes others first
        return values
    return {}


def write_values(path: Path, values: Mapping[str, object]) -> None:
    with contextlib.suppress(OSError):
        write_with_digest(path, json.dumps(values).encode())
        keep_newest(path.parent, MAX_FILES)
