"""Measures the values of a template, in characters, before an operation writes, reads or compares them."""

from collections.abc import ItemsView, Iterable, Iterator, KeysView, ValuesView
from dataclasses import dataclass
from typing import Any

from jinja2.utils import Namespace

from inference.text.sandbox.budget import TemplateLimit
from inference.untrusted_json import MAX_LEVELS as MAX_JSON_LEVELS

ITEM_CHARS = 8  # of memory for an item of a list
NUMBER_CHARS = 8  # of a value that is neither a text nor a container; a long integer has more
MAX_VALUES = 1 << 18
MAX_LEVELS = 2 * MAX_JSON_LEVELS
VIEWS = (ItemsView, KeysView, ValuesView)
CONTAINERS = (list, tuple, dict, set, frozenset, Namespace, *VIEWS)
SIZED = (list, tuple, dict, set, frozenset, range, *VIEWS)
SIMPLE_TYPES = frozenset((str, int, float, bool, type(None)))


@dataclass(frozen=True, slots=True)
class TreeSize:
    """Size of a value with all that it contains; a value that occurs twice counts twice."""

    chars: int
    values: int
    levels: int


def size(value: Any) -> int:
    """The characters of a text, or the memory of a container without its items."""
    kind = type(value)
    if kind is str:
        return len(value)
    if kind is list or kind is dict:
        return len(value) * ITEM_CHARS
    if kind in SIMPLE_TYPES:
        return NUMBER_CHARS + (value.bit_length() // 3 if kind is int else 0)
    if isinstance(value, str | bytes):
        return len(value)
    return len(value) * ITEM_CHARS if isinstance(value, SIZED) else NUMBER_CHARS


def tree_size(value: Any, max_values: int = MAX_VALUES) -> TreeSize:
    """Raises TemplateLimit for more than max_values values, or more than MAX_LEVELS levels.

    A list that contains another one twice, and so on, has more values than any memory holds: writing or
    comparing it never ends.
    """
    chars = num_values = depth = 0
    level = [value]
    while level:
        depth += 1
        if depth > MAX_LEVELS:
            raise TemplateLimit(f"it nests values deeper than {MAX_LEVELS} levels, its limit")
        next_level: list[Any] = []
        for child in level:
            kind = type(child)
            chars += len(child) if kind is str else size(child)
            if kind not in SIMPLE_TYPES and isinstance(child, CONTAINERS):
                next_level.extend(children(child))
                if num_values + len(next_level) > max_values:
                    raise TemplateLimit(f"it handles more than {max_values} values at once, its limit")
        num_values += len(level)
        level = next_level
    return TreeSize(chars, num_values, depth)


def tree_chars(value: Any) -> int:
    """The characters of a value with all that it contains. Raises TemplateLimit."""
    return size(value) if type(value) in SIMPLE_TYPES else tree_size(value).chars


def children(container: Any) -> Iterable[Any]:
    if type(container) is not dict and isinstance(container, Namespace):
        container = namespace_values(container)
    if isinstance(container, dict):
        return (*container, *container.values())
    return container


def namespace_values(namespace: Namespace) -> dict[str, Any]:
    attributes: dict[str, Any] = getattr(namespace, "_Namespace__attrs")  # noqa: B009 - a private name
    return attributes


def is_iterator(value: Any) -> bool:
    return type(value) not in SIMPLE_TYPES and isinstance(value, Iterator)
