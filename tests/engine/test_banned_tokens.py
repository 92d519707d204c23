"""Banned and allowed tokens of a request, and whether any token is left."""

import math

import pytest

from inference.engine.banned_tokens import BannedTokens, check_any_token_allowed, find_followers
from inference.errors import BadRequest
from inference.sampling import Sampling

NO_ENDS: frozenset[int] = frozenset()
ALL = tuple((id,) for id in range(10))


@pytest.mark.parametrize(
    ("sampling", "ends", "early"),
    [
        (Sampling(allowed_token_ids=frozenset()), NO_ENDS, False),
        (Sampling(allowed_token_ids=frozenset((10, 99))), NO_ENDS, False),
        (Sampling(allowed_token_ids=frozenset((3, 4)), bad_words_ids=((3,), (4,))), NO_ENDS, False),
        (
            Sampling(allowed_token_ids=frozenset((3,)), eos_allowed=False, bad_words_ids=((3,),)),
            frozenset((9,)),
            False,
        ),
        (Sampling(allowed_token_ids=frozenset((3, 4)), banned_first=frozenset((3, 4))), NO_ENDS, False),
        (Sampling(allowed_token_ids=frozenset((3,)), logit_bias={3: -math.inf}), NO_ENDS, False),
        (Sampling(allowed_token_ids=frozenset((3,)), bad_words_ids=((3,),)), frozenset((9,)), True),
        (Sampling(bad_words_ids=ALL), NO_ENDS, False),
        (Sampling(bad_words_ids=ALL[1:], logit_bias={0: -math.inf}), NO_ENDS, False),
        (Sampling(bad_words_ids=ALL[1:]), frozenset((0,)), True),
    ],
)
def test_a_request_that_leaves_no_token_is_refused(
    sampling: Sampling, ends: frozenset[int], early: bool
) -> None:
    with pytest.raises(BadRequest, match="no token is left to choose"):
        check_any_token_allowed(sampling, ends, early, vocab=10)


@pytest.mark.parametrize(
    ("sampling", "ends", "early"),
    [
        (Sampling(), NO_ENDS, False),
        (Sampling(allowed_token_ids=frozenset()), frozenset((9,)), False),
        (Sampling(allowed_token_ids=frozenset((3, 4)), bad_words_ids=((3,), (4, 4))), NO_ENDS, False),
        (Sampling(bad_words_ids=ALL[1:]), NO_ENDS, True),
        (Sampling(bad_words_ids=(*ALL[1:], (0, 1), (77,))), NO_ENDS, False),
    ],
)
def test_one_token_is_enough(sampling: Sampling, ends: frozenset[int], early: bool) -> None:
    check_any_token_allowed(sampling, ends, early, vocab=10)


def test_a_stop_token_is_allowed_by_eos_allowed_or_by_the_allowed_ids() -> None:
    ends, only = frozenset((8, 9)), frozenset((3, 9))
    assert sorted(BannedTokens(Sampling(allowed_token_ids=only), ends).allowed_ids.tolist()) == [3, 8, 9]
    assert sorted(
        BannedTokens(Sampling(allowed_token_ids=only, eos_allowed=False), ends).allowed_ids.tolist()
    ) == [3, 9]
    assert BannedTokens(Sampling(eos_allowed=False), ends).allowed_ids.tolist() == []


def test_completing_ids_end_a_bad_word_whose_beginning_was_generated() -> None:
    bans = BannedTokens(
        Sampling(bad_words_ids=((1,), (2, 3), (4, 2, 5), (2, 2, 6), (9, 9, 4, 2, 7))), NO_ENDS
    )
    assert bans.banned_ids.tolist() == [1]
    assert bans.completing_ids([2]) == {3}
    assert bans.completing_ids([4, 2]) == {3, 5}
    assert bans.completing_ids([9, 9, 4, 2]) == {3, 5, 7}
    assert bans.completing_ids([2, 4]) == set()


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
def test_followers_are_the_tokens_after_earlier_equal_runs(
    tokens: list[int], size: int, expected: set[int]
) -> None:
    assert find_followers(tokens, tokens[len(tokens) - size :]) == expected
