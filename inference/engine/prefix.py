"""The longest common beginning of token lists.

Plain lists of integers; knows nothing of rows or sequences.
"""

from collections.abc import Iterable
from collections.abc import Sequence as Ids

MIN_GAIN = 32  # tokens; what waiting for another's prefix must save to be worth a step's delay
MIN_PREFIX = 16  # tokens; a shorter match is not worth a move
BLOCK = 256  # tokens compared at once


def longest(tokens: Ids[int], holders: Iterable[tuple[int, Ids[int], int]]) -> tuple[int, int]:
    """Of holders (row, ids, count), the row whose first `count` ids begin most like tokens, and how far.

    At least MIN_PREFIX, at most all tokens but one; (-1, 0) where there is none. The first of equals.
    """
    best, source = 0, -1
    for row, ids, count in holders:
        limit = min(count, len(tokens) - 1)
        # To be longer, it must agree where the best so far ended: that rules out most at one glance.
        if limit > best and ids[best] == tokens[best]:
            shared = common(tokens, ids, limit)
            if shared > best:
                best, source = shared, row
    return source, best


def common(a: Ids[int], b: Ids[int], limit: int) -> int:
    """How many leading tokens, at most limit, a and b share; 0 where fewer than MIN_PREFIX."""
    limit = min(limit, len(a), len(b))
    if limit < MIN_PREFIX or a[:MIN_PREFIX] != b[:MIN_PREFIX]:
        return 0
    shared, width = MIN_PREFIX, BLOCK
    while width:
        while shared + width <= limit and a[shared : shared + width] == b[shared : shared + width]:
            shared += width
        width //= 2
    return shared
