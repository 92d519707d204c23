"""What a model is computing just now: its layers, masks and attention read it there.

Knows nothing of what it holds.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class Current(Generic[T]):
    """Holds one at a time. They never nest: one thread runs one model."""

    def __init__(self) -> None:
        self._held: T | None = None

    def get(self) -> T | None:
        """What is computed; None outside of that."""
        return self._held

    @contextmanager
    def computing(self, held: T) -> Iterator[None]:
        """Have it be current meanwhile."""
        assert self._held is None, "something is computed already"
        self._held = held
        try:
            yield
        finally:
            self._held = None
