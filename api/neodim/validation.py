"""Checks a request's numbers, the version that it requires, and its lists of words.

The Neodim Server refuses most numbers that are refused here, and returns meaningless results for the others.
"""

import math
from collections.abc import Sequence
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from api.neodim.errors import ImpossibleRequest
from api.neodim.protocol import NeodimRequest
from inference.errors import BadRequest
from inference.validation import MAX_BAD_WORDS, MAX_PENALTY

# The last release of the Neodim Server: all its fields are supported, and its clients may require it.
VERSION = "0.13"

MAX_VERSION_CHARS = 200
MAX_SEQUENCES = 64
MAX_WORD_CHARS = 200
MAX_INT32 = 2**31 - 1
MAX_EXACT_INT = 2**53  # a float cannot represent every integer above it

# Field → (lowest, highest), both allowed. 0 means off.
RANGES: dict[str, tuple[float, float]] = {
    "generated_tokens_count": (0, MAX_EXACT_INT),
    "max_total_tokens": (0, MAX_EXACT_INT),
    "sequences_count": (1, MAX_SEQUENCES),
    "stop_strings_required_matches_count": (0, MAX_INT32),
    "temperature": (0, 100),
    "top_k": (0, MAX_INT32),
    "top_p": (0, math.inf),
    "typical": (0, math.inf),
    "tfs": (0, 1),
    "top_a": (0, 1),
    "penalty_alpha": (0, 1),
    "repetition_penalty": (0, MAX_PENALTY),
    "repetition_penalty_range": (0, MAX_EXACT_INT),
    "repetition_penalty_slope": (0, MAX_PENALTY),
    "no_repeat_ngram_size": (0, MAX_INT32),
}
SEED_RANGE = (-(2**63), 2**63 - 1)


def check_ranges(body: NeodimRequest) -> None:
    """Raise BadRequest for the first field that is out of its range."""
    for field, (low, high) in {**RANGES, "seed": SEED_RANGE}.items():
        value: Any = getattr(body, field)
        if value is not None and not low <= value <= high:
            rule = f"must be between {low} and {high}" if high < math.inf else f"must be at least {low}"
            raise BadRequest(field, rule, value)
    if body.penalty_alpha and (body.top_k or 0) < 2:
        raise BadRequest(
            "penalty_alpha",
            "needs a top_k of at least 2: contrastive search chooses among that many tokens",
            body.top_k,
        )


def check_version(required: str | None) -> None:
    """Raise BadRequest for an invalid specifier, ImpossibleRequest if VERSION does not satisfy it."""
    required = required or ""
    try:
        if len(required) > MAX_VERSION_CHARS:
            raise InvalidSpecifier
        is_served = VERSION in SpecifierSet(required, prereleases=True)
    except ValueError:  # InvalidSpecifier, or a number with too many digits
        rule = 'must be a version specifier as in PEP 440, such as ">=0.13"'
        raise BadRequest("required_server_version", rule, required) from None
    if not is_served:
        raise ImpossibleRequest(f"Requested server version: {required}, current server version: {VERSION}")


def check_words(words: Sequence[str], field: str) -> None:
    """Raise BadRequest for too many or too long words."""
    if len(words) > MAX_BAD_WORDS:
        raise BadRequest(field, f"may hold at most {MAX_BAD_WORDS} words", len(words))
    for word in words:
        if len(word) > MAX_WORD_CHARS:
            raise BadRequest(field, f"may have at most {MAX_WORD_CHARS} characters each", word)
