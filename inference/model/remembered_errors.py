"""Remembers on disk how exactly the runners of a model computed: a later load repeats a step of the proof.

The whole proof takes a third of a small model's load. Knows names and numbers; not what is measured.
"""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

from inference.process.cache_folder import keep_newest, read_with_digest, write_with_digest

MAX_FILES = 64  # models and settings, of some hundred bytes each


class RememberedErrors:
    """Errors by the names of measurements. path: names all that they follow from; None: nothing is kept."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.errors = read_errors(path) if path else {}

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
            self._write(self.path)
        return error

    def _write(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            write_with_digest(path, json.dumps(self.errors).encode())
            keep_newest(path.parent, MAX_FILES)


def read_errors(path: Path) -> dict[str, float]:
    """The errors in the file; none if it cannot be read."""
    with contextlib.suppress(OSError, ValueError, AttributeError, TypeError):
        errors = {str(name): float(error) for name, error in json.loads(read_with_digest(path)).items()}
        path.touch()  # it is used: keep_newest deletes others first
        return errors
    return {}
