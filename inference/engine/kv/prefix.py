"""Common prefixes: of token lists, and of lists of page hashes.

A page hash identifies all tokens up to the end of its page, so pages of two sequences with the same hash have
the same prefix: the digest is long enough that collisions cannot be constructed. Knows no rows or sequences.
"""

from array import array
from collections.abc import Iterable
from collections.abc import Sequence as SequenceOf
from hashlib import blake2b
from itertools import takewhile

MIN_GAIN = 32  # tokens that waiting for another sequence's prefix must save at least
MIN_PREFIX = 16  # tokens; a shorter match is not worth a copy
BLOCK = 256  # tokens compared at once
HASH_BYTES = 20


def longest_prefix(
    token_ids: SequenceOf[int], candidates: Iterable[tuple[int, SequenceOf[int], int]]
) -> tuple[int, int]:
    """The row of the candidate (row, ids, num_tokens) with the longest common prefix, and the prefix length.

    Compares the first num_tokens ids of each candidate. The length is at least MIN_PREFIX and at most
    len(token_ids) - 1; (-1, 0) if no candidate qualifies. Among equals the first candidate wins.
    """
    best, best_row = 0, -1
    for row, candidate_ids, num_tokens in candidates:
        limit = min(num_tokens, len(token_ids) - 1)
        # A longer match must agree at the token where the best match ended: this rejects most candidates.
        if limit > best and candidate_ids[best] == token_ids[best]:
            shared = common_prefix_length(token_ids, candidate_ids, limit)
            if shared > best:
                best, best_row = shared, row
    return best_row, best


def common_prefix_length(a: SequenceOf[int], b: SequenceOf[int], limit: int) -> int:
    """Number of leading tokens, at most limit, that a and b share; 0 if fewer than MIN_PREFIX."""
    limit = min(limit, len(a), len(b))
    if limit < MIN_PREFIX or a[:MIN_PREFIX] != b[:MIN_PREFIX]:
        return 0
    shared, width = MIN_PREFIX, BLOCK
    while width:
        while shared + width <= limit and a[shared : shared + width] == b[shared : shared + width]:
            shared += width
        width //= 2
    return shared


def extend_page_hashes(
    page_hashes: list[bytes], token_ids: SequenceOf[int], page_size: int, cache_key: tuple[str, ...] = ()
) -> None:
    """Append the hashes of the full pages of `page_size` tokens that are not hashed yet.

    Pages of sequences with different cache keys have different hashes.
    """
    for end in range((len(page_hashes) + 1) * page_size, len(token_ids) + 1, page_size):
        previous_hash = page_hashes[-1] if page_hashes else root_hash(cache_key)
        page_bytes = array("q", token_ids[end - page_size : end]).tobytes()
        page_hashes.append(blake2b(previous_hash + page_bytes, digest_size=HASH_BYTES).digest())


def root_hash(cache_key: tuple[str, ...]) -> bytes:
    """What the hash of a first page continues. It differs from every page hash, whatever the key is."""
    if not any(cache_key):
        return b""
    key_bytes = ascii(cache_key).encode()  # quoted: no part can imitate two
    return blake2b(key_bytes, digest_size=HASH_BYTES, person=b"cache key").digest()


def num_shared_pages(a: SequenceOf[bytes], b: SequenceOf[bytes]) -> int:
    """How many leading hashes two lists share."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
