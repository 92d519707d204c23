"""The longest common beginning."""

from hypothesis import given
from hypothesis import strategies as st

from inference.engine.prefix import BLOCK, MIN_PREFIX, common, longest

IDS = st.lists(st.integers(1, 2), max_size=60)
BEGINNING = st.builds(lambda ids, times: ids * times, IDS, st.integers(1, 12))


def counted(a: list[int], b: list[int], limit: int) -> int:
    """The plain way."""
    shared = 0
    while shared < min(len(a), len(b), limit) and a[shared] == b[shared]:
        shared += 1
    return shared if shared >= MIN_PREFIX else 0


@given(BEGINNING, IDS, IDS, st.integers(0, 800))
def test_common_counts_equal_leading_tokens(
    beginning: list[int], a: list[int], b: list[int], limit: int
) -> None:
    assert common(beginning + a, beginning + b, limit) == counted(beginning + a, beginning + b, limit)


@given(BEGINNING, IDS, st.lists(st.tuples(IDS, st.integers(0, 800)), max_size=5))
def test_longest_finds_the_holder_that_shares_most(
    beginning: list[int], rest: list[int], others: list[tuple[list[int], int]]
) -> None:
    tokens = beginning + rest + [3]
    holders = [
        (row, beginning + ids, min(count, len(beginning + ids))) for row, (ids, count) in enumerate(others)
    ]
    row, shared = longest(tokens, holders)
    assert shared == max((counted(tokens[:-1], ids, count) for _, ids, count in holders), default=0)
    assert row == -1 if shared == 0 else counted(tokens[:-1], *holders[row][1:]) == shared


def test_a_token_is_always_left() -> None:
    tokens = list(range(3 * BLOCK))
    assert longest(tokens, [(4, tokens, len(tokens))]) == (4, 3 * BLOCK - 1)
