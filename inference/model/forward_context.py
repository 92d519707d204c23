"""A value for the running forward pass: a model's layers, masks and attention read it from here.

Knows nothing about the value.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class ForwardContext(Generic[T]):
    """Contains one value during a forward pass. Uses do not nest: one thread runs one model."""

    def __init__(self) -> None:
        self._value: T | None = None

    def get(self) -> T | None:
        """The value of the running forward pass; None outside of one."""
        return self._value

    @contextmanager
    def use(self, value: T) -> Iterator[None]:
        """Make `value` the current one inside the with block."""
        assert self._value is None, "a forward pass is already running"
        self._value = value
        try:
            yield
        finally:
            self._value = None
