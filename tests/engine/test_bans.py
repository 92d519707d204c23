"""What a request rules out, and whether that leaves it anything."""

import math

import pytest

from inference.engine.bans import Bans, check_left, followers
from inference.errors import BadRequest
from inference.sampling import Sampling

NO_ENDS: frozenset[int] = frozenset()
ALL = tuple((id,) for id in range(10))


@pytest.mark.parametrize(
    ("sampling", "ends", "early"),
    [
        (Sampling(allowed=frozenset()), NO_ENDS, False),
        (Sampling(allowed=frozenset((10, 99))), NO_ENDS, False),
        (Sampling(allowed=frozenset((3, 4)), banned=((3,), (4,))), NO_ENDS, False),
        (Sampling(allowed=frozenset((3,)), allowed_ends=False, banned=((3,),)), frozenset((9,)), False),
        (Sampling(allowed=frozenset((3, 4)), banned_first=frozenset((3, 4))), NO_ENDS, False),
        (Sampling(allowed=frozenset((3,)), bias={3: -math.inf}), NO_ENDS, False),
        (Sampling(allowed=frozenset((3,)), banned=((3,),)), frozenset((9,)), True),
        (Sampling(banned=ALL), NO_ENDS, False),
        (Sampling(banned=ALL[1:], bias={0: -math.inf}), NO_ENDS, False),
        (Sampling(banned=ALL[1:]), frozenset((0,)), True),
    ],
)
def test_a_request_that_leaves_no_token_is_refused(
    sampling: Sampling, ends: frozenset[int], early: bool
) -> None:
    with pytest.raises(BadRequest, match="no token is left to choose"):
        check_left(sampling, ends, early, vocab=10)


@pytest.mark.parametrize(
    ("sampling", "ends", "early"),
    [
        (Sampling(), NO_ENDS, False),
        (Sampling(allowed=frozenset()), frozenset((9,)), False),
        (Sampling(allowed=frozenset((3, 4)), banned=((3,), (4, 4))), NO_ENDS, False),
        (Sampling(banned=ALL[1:]), NO_ENDS, True),
        (Sampling(banned=(*ALL[1:], (0, 1), (77,))), NO_ENDS, False),
    ],
)
def test_one_token_is_enough(sampling: Sampling, ends: frozenset[int], early: bool) -> None:
    check_left(sampling, ends, early, vocab=10)


def test_an_end_is_allowed_by_itself_or_as_any_token_is() -> None:
    ends, only = frozenset((8, 9)), frozenset((3, 9))
    assert sorted(Bans(Sampling(allowed=only), ends).only.tolist()) == [3, 8, 9]
    assert sorted(Bans(Sampling(allowed=only, allowed_ends=False), ends).only.tolist()) == [3, 9]
    assert Bans(Sampling(allowed_ends=False), ends).only.tolist() == []


def test_a_run_is_completed_behind_its_beginning_only() -> None:
    bans = Bans(Sampling(banned=((1,), (2, 3), (4, 2, 5), (2, 2, 6), (9, 9, 4, 2, 7))), NO_ENDS)
    assert bans.never.tolist() == [1]
    assert bans.completing([2]) == {3}
    assert bans.completing([4, 2]) == {3, 5}
    assert bans.completing([9, 9, 4, 2]) == {3, 5, 7}
    assert bans.completing([2, 4]) == set()


@pytest.mark.parametrize(
    ("tokens", "size", "expected"),
    [
        ([1, 2, 3, 1, 2], 2, {3}),
        ([1, 2, 1, 4, 1], 1, {2, 4}),
        ([5, 5, 5, 5], 2, {5}),
        ([1, 2, 3], 0, {1, 2, 3}),
        ([2, 9, 1, 2], 2, set()),
        ([1, 2], 2, set()),
    ],
)
def test_followers_are_what_came_behind_the_same_run(
    tokens: list[int], size: int, expected: set[int]
) -> None:
    assert followers(tokens, tokens[len(tokens) - size :]) == expected
