"""Parses Python literals from untrusted sources: every error is a ValueError, and the work is bounded.

Python's parser makes a tree of the whole text first: a kilobyte and 10 µs for each value, while all other
threads wait. The characters of a string cost next to nothing: it counts as one.
"""

import ast
import re
from typing import Any

MAX_CHARS = 32 << 10  # a string counts as one: some 16,000 values, in a tenth of a second
# A string, or what begins as one and does not end. Possessive: no text is read twice.
STRING = re.compile(r"""'[^'\\]*+(?:\\.?[^'\\]*+)*+'?|"[^"\\]*+(?:\\.?[^"\\]*+)*+"?""", re.DOTALL)


def parse_literal(text: str) -> Any:
    """ast.literal_eval. Raises ValueError, also for more than MAX_CHARS characters, strings as one each."""
    if len(text) > MAX_CHARS and len(STRING.sub("s", text)) > MAX_CHARS:
        raise ValueError(f"it has more than {MAX_CHARS} characters, strings as one each")
    try:
        return ast.literal_eval(text)
    except (SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError("it is no Python literal") from error
