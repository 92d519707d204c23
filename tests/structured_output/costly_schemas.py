"""JSON schemas whose compilation takes ever more time and memory."""

from string import ascii_lowercase
from typing import Any


def combined_patterns(count: int) -> dict[str, Any]:
    """A string that must match all of `count` patterns: each doubles the work."""
    return {"allOf": [{"type": "string", "pattern": f".*{char}.*"} for char in ascii_lowercase[:count]]}
