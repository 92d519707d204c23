"""What is guessed, for whom, and how far; whether it was right is tested in test_drafts.py."""

import random

import pytest

from inference.engine.rows import Rows
from inference.engine.sequence import Sequence, Task
from inference.engine.speculate import FIRST, LAST, Lookup, Speculator, worth

MOST = 8


def rows(context: int = 256, columns: int = 256) -> Rows:
    made = Rows(max_rows=8, context=context, area=8 * 256, step=16, keeps=True)
    made.columns = columns
    return made


def sequence(tokens: list[int], id: int = 0, answer: int = 1, **options: object) -> Sequence:
    """One that decodes, `answer` of its tokens generated."""
    options = {"max_tokens": 100} | options
    one = Sequence(id, Task(tuple(tokens[:-answer]), **options), None, tokens[:-answer])
    one.tokens = tokens
    one.cached = len(tokens) - 1
    return one


def trusted(*sequences: Sequence, most: int = MOST, **shape: int) -> Speculator:
    """A speculator that has seen its guesses about these come true often."""
    made = Speculator(rows(**shape), most)
    made.draft([(one, 1) for one in sequences], 512)
    for lookup in made._lookups.values():
        lookup.trust = LAST
    return made


def drafts(one: Sequence, **shape: int) -> list[int]:
    trusted(one, **shape).draft([(one, 1)], 512)
    return one.drafts


def test_a_guess_is_what_came_behind_the_last_tokens_the_time_before() -> None:
    lookup = Lookup()
    lookup.read([1, 2, 3, 4, 5, 6, 9, 1, 2, 3], 4)
    assert lookup.foreseen == [4, 5, 6, 9]


def test_the_latest_time_counts() -> None:
    lookup = Lookup()
    lookup.read([1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3], 2)
    assert lookup.foreseen == [5, 1]


def test_a_guess_that_reaches_the_end_goes_on_with_its_beginning() -> None:
    lookup = Lookup()
    lookup.read([7, 1, 2, 1, 2, 1, 2], 5)
    assert lookup.foreseen == [1, 2, 1, 2, 1]


@pytest.mark.parametrize("tokens", ([], [1], [1, 2, 3], [1, 2, 3, 4, 5], [3, 2, 1, 0, 1, 2]))
def test_there_is_no_guess_where_nothing_comes_again(tokens: list[int]) -> None:
    lookup = Lookup()
    lookup.read(tokens, 4)
    assert lookup.foreseen == []


def test_reading_on_finds_what_reading_at_once_does() -> None:
    chance = random.Random(5)
    tokens = chance.choices(range(4), k=3000)
    growing, at = Lookup(), 1500
    while at < len(tokens):
        growing.read(tokens[:at], 6)
        at += chance.choice((1, 1, 1, 4))
        whole = Lookup()
        whole._learn(tokens[:1024])
        whole._learn(tokens[:at])
        growing.read(tokens[:at], 6)
        whole.read(tokens[:at], 6)
        assert growing.foreseen == whole.foreseen


def test_trust_follows_what_comes_whether_it_was_drafted_or_not() -> None:
    lookup, tokens = Lookup(), [1, 2, 3, 4] * 3
    lookup.read(tokens, MOST)
    for token in [1, 2, 3, 4] * 10:
        tokens.append(token)
        lookup.read(tokens, MOST)
    assert 0.9 < lookup.trust <= LAST
    for _ in range(40):
        tokens.append(lookup.foreseen[0] + 1 if lookup.foreseen else 1)
        lookup.read(tokens, MOST)
    assert lookup.trust < FIRST


def test_nothing_is_learnt_from_a_step_that_yielded_nothing() -> None:
    lookup, tokens = Lookup(), [1, 2, 3, 4] * 3
    lookup.read(tokens, MOST)
    lookup.read(tokens, MOST)
    assert lookup.trust == FIRST and lookup.foreseen == [1, 2, 3, 4, 1, 2, 3, 4]


def test_a_sequence_that_repeats_itself_gets_drafts() -> None:
    assert drafts(sequence([1, 2, 3, 4] * 3)) == [1, 2, 3, 4, 1, 2, 3, 4]


def test_drafts_and_the_token_behind_them_fit_the_limit() -> None:
    assert len(drafts(sequence([1, 2, 3, 4] * 3, max_tokens=5))) == 3
    assert len(drafts(sequence([1, 2, 3, 4] * 3, max_tokens=2))) == 0
    assert len(drafts(sequence([1, 2, 3, 4] * 3), context=15)) == 2


def test_drafts_fit_the_columns_there_are() -> None:
    assert len(drafts(sequence([1, 2, 3, 4] * 3), columns=14)) == 2
    assert len(drafts(sequence([1, 2, 3, 4] * 3), columns=12)) == 0


def test_there_are_none_where_a_grammar_rules() -> None:
    assert drafts(sequence([1, 2, 3, 4] * 3, matcher=object())) == []


def test_there_are_none_before_the_first_token_nor_beside_a_prompt() -> None:
    begins, goes_on = sequence([1, 2, 3, 4] * 3), sequence([1, 2, 3, 4] * 3, id=1)
    made = trusted(begins, goes_on)
    begins.prompt, begins.cached = 12, 5
    made.draft([(begins, 7), (goes_on, 1)], 512)
    assert begins.drafts == goes_on.drafts == []
    begins.cached = 11
    made.draft([(begins, 1), (goes_on, 1)], 512)
    assert begins.drafts == [] and goes_on.drafts


def test_drafts_of_the_step_before_are_gone() -> None:
    one = sequence([1, 2, 3, 4] * 3)
    made = trusted(one)
    made.draft([(one, 1)], 512)
    assert one.drafts
    one.cached = 3
    made.draft([(one, 9)], 512)
    assert one.drafts == []


def test_a_step_with_drafts_stays_within_its_budget() -> None:
    one = sequence([1, 2, 3, 4] * 3)
    trusted(one, most=100).draft([(one, 1)], 6)
    assert len(one.drafts) == 5


def test_the_wider_the_batch_the_fewer_drafts() -> None:
    lengths = []
    for width in (1, 2, 4, 8, 16, 32):
        many = [sequence([1, 2, 3, 4] * 3, id=id) for id in range(width)]
        made = trusted(*many)
        made.draft([(one, 1) for one in many], 512)
        lengths.append(len(many[0].drafts))
    assert lengths == sorted(lengths, reverse=True) and lengths[0] == MOST and lengths[-1] == 0


def test_a_guess_nobody_trusts_is_not_computed() -> None:
    one, other = sequence([1, 2, 3, 4] * 3), sequence([1, 2, 3, 4] * 3, id=1)
    made = trusted(one, other)
    made._lookups[0].trust = 0.01
    made.draft([(one, 1), (other, 1)], 512)
    assert one.drafts == [] and other.drafts


def test_depth_grows_with_trust_and_shrinks_with_width() -> None:
    assert [worth([trust], 1, MOST) for trust in (0.01, 0.3, 0.5, 0.9)] == [0, 0, 3, 8]
    assert worth([0.9] * 2, 2, MOST) > worth([0.9] * 8, 8, MOST) > worth([0.9, *[0.1] * 7], 8, MOST)
    assert worth([], 3, MOST) == worth([0.9], 1, 0) == 0


def test_who_has_left_is_forgotten() -> None:
    one, other = sequence([1, 2, 3, 4] * 3), sequence([1, 2, 3, 4] * 3, id=1)
    made = trusted(one, other)
    made.draft([(one, 1)], 512)
    assert set(made._lookups) == {0}
