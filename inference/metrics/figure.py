"""A histogram of answers, before there is one: its name, its buckets, and what it is told of each."""

from collections.abc import Callable
from typing import NamedTuple

from inference.metrics.span import Span

Buckets = tuple[float, ...]
LENGTHS: Buckets = ()  # tokens, as far as the context goes: each family divides it in its own way


class Figure(NamedTuple):
    name: str
    help: str
    buckets: Buckets
    read: Callable[[Span], float]
