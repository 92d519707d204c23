"""The longest common prefix."""

from hypothesis import given
from hypothesis import strategies as st

from inference.engine.kv.prefix import (
    BLOCK,
    MIN_PREFIX,
    common_prefix_length,
    extend_page_hashes,
    longest_prefix,
    root_hash,
)

IDS = st.lists(st.integers(1, 2), max_size=60)
BEGINNING = st.builds(lambda ids, times: ids * times, IDS, st.integers(1, 12))


def naive_prefix_length(a: list[int], b: list[int], limit: int) -> int:
    """Reference: count equal leading tokens one by one; 0 below MIN_PREFIX."""
    shared = 0
    while shared < min(len(a), len(b), limit) and a[shared] == b[shared]:
        shared += 1
    return shared if shared >= MIN_PREFIX else 0


@given(BEGINNING, IDS, IDS, st.integers(0, 800))
def test_common_prefix_length_counts_equal_leading_tokens(
    beginning: list[int], a: list[int], b: list[int], limit: int
) -> None:
    assert common_prefix_length(beginning + a, beginning + b, limit) == naive_prefix_length(
        beginning + a, beginning + b, limit
    )


@given(BEGINNING, IDS, st.lists(st.tuples(IDS, st.integers(0, 800)), max_size=5))
def test_longest_prefix_finds_the_candidate_that_shares_most(
    beginning: list[int], rest: list[int], others: list[tuple[list[int], int]]
) -> None:
    tokens = beginning + rest + [3]
    holders = [
        (row, beginning + ids, min(count, len(beginning + ids))) for row, (ids, count) in enumerate(others)
    ]
    row, shared = longest_prefix(tokens, holders)
    assert shared == max(
        (naive_prefix_length(tokens[:-1], ids, count) for _, ids, count in holders), default=0
    )
    assert row == -1 if shared == 0 else naive_prefix_length(tokens[:-1], *holders[row][1:]) == shared


def test_longest_prefix_leaves_one_token_to_compute() -> None:
    tokens = list(range(3 * BLOCK))
    assert longest_prefix(tokens, [(4, tokens, len(tokens))]) == (4, 3 * BLOCK - 1)


def test_a_cache_salt_cannot_imitate_a_page_of_another_cache_key() -> None:
    """A salt of the bytes of a page hash does not lead to the hashes of the pages behind that page."""
    page_hashes: list[bytes] = []
    extend_page_hashes(page_hashes, range(8), 4)
    imitated: list[bytes] = []
    extend_page_hashes(imitated, range(4, 8), 4, ("", page_hashes[0].decode("latin-1")))
    assert imitated[0] != page_hashes[1]
    keys = [("", ""), ("a", ""), ("", "a"), ("a", "b"), ("", "ab"), ("", "\ud800"), ("", "a', 'b")]
    assert len({root_hash(key) for key in keys}) == len(keys)
