"""JSON that strangers wrote: whatever is wrong with it is a ValueError, and what is read can be walked.

Python reads about a thousand levels and raises RecursionError at more; code that walks what was read bears
fewer. No file of a model and no request needs a tenth of that.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

LEVELS = 100  # of lists and objects within each other
Hook = Callable[[dict[str, Any]], Any]  # what becomes of an object


class TooDeep(ValueError):
    def __init__(self) -> None:
        super().__init__(f"it is nested deeper than {LEVELS} levels")


def object_in(path: Path, hook: Hook | None = None) -> dict[str, Any]:
    """The JSON object that a file holds. Raises OSError, and ValueError, whose text names the file."""
    try:
        value = parsed(path.read_text(), hook)
    except ValueError as error:
        raise ValueError(f"{path.name} is not JSON that can be read: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path.name} is not a JSON object")
    return value


def parsed(text: str | bytes, hook: Hook | None = None) -> Any:
    """Raises ValueError."""
    try:
        value = json.loads(text, object_hook=hook)
    except RecursionError:
        raise TooDeep from None
    check_levels(value)
    return value


def check_levels(value: Any) -> None:
    """Raise TooDeep for lists and dicts that stand in more than LEVELS of each other."""
    level, depth = [value], 1
    while level:
        if depth > LEVELS:
            raise TooDeep
        level = [child for parent in level for child in children(parent) if isinstance(child, dict | list)]
        depth += 1


def children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
