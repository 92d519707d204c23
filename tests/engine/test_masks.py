"""What may not come next: each rule against transformers' processor, or by hand."""

from dataclasses import dataclass

import pytest
import torch
from transformers import (
    MinNewTokensLengthLogitsProcessor,
    NoBadWordsLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
)

from inference.engine.masks import banned, beginnings, completed, constraint, early, ngrams, others
from inference.engine.sequence import Sequence
from inference.sampling import Sampling
from tests.engine.answers import random_logits, sequence

WIDTH = 100


@dataclass
class Only:
    """A matcher that allows these ids, in a mask of this many words."""

    ids: tuple[int, ...]
    words: int = (WIDTH + 31) // 32

    def allowed(self) -> torch.Tensor:
        bits = [sum(1 << id % 32 for id in self.ids if id // 32 == word) for word in range(self.words)]
        return torch.tensor([b - 2**32 if b >= 2**31 else b for b in bits], dtype=torch.int32)

    def advance(self, token: int) -> None:
        raise AssertionError("an edit advances nothing")


class Anything(Only):
    def allowed(self) -> None:
        return None


@pytest.fixture
def logits() -> torch.Tensor:
    return random_logits(3, WIDTH)


def left(row: torch.Tensor) -> list[int]:
    return row.isfinite().nonzero().flatten().tolist()


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_repeated_runs_are_forbidden_as_transformers_does(size: int) -> None:
    tokens = torch.randint(0, 4, (8, 60), generator=torch.Generator().manual_seed(size)).tolist()
    rows = {row: made(ids, no_repeat_ngram=size) for row, ids in enumerate(tokens)}
    logits = random_logits(8, WIDTH)
    expected = NoRepeatNGramLogitsProcessor(size)(torch.tensor(tokens), logits)
    ngrams(logits, rows)
    assert torch.equal(logits, expected)
    assert not bool(expected.isfinite().all())


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_a_text_shorter_than_a_run_repeats_none(length: int) -> None:
    logits, expected = random_logits(1, WIDTH), random_logits(1, WIDTH)
    ngrams(logits, {0: made([7] * length, no_repeat_ngram=4)})
    assert torch.equal(logits, NoRepeatNGramLogitsProcessor(4)(torch.tensor([[7] * length]), expected))


def test_banned_runs_are_forbidden_as_transformers_does() -> None:
    chance = torch.Generator().manual_seed(3)
    runs = [torch.randint(0, 3, (size,), generator=chance).tolist() for size in (1, 2, 2, 3, 3, 3, 4, 9)]
    runs += [[50], [1, 60], [0, 1, 70]]
    tokens = torch.randint(0, 3, (32, 6), generator=chance).tolist()
    rows = {row: made(ids, banned=tuple(map(tuple, runs))) for row, ids in enumerate(tokens)}
    logits = random_logits(32, WIDTH)
    expected = NoBadWordsLogitsProcessor(runs)(torch.tensor(tokens), logits)
    banned(logits, rows)
    completed(logits, rows)
    assert torch.equal(logits, expected)
    assert len({tuple(left(row)) for row in logits}) > 3


def test_an_end_can_be_banned_and_ids_beyond_the_logits_are_no_matter(logits: torch.Tensor) -> None:
    bans = ((8,), (WIDTH + 3,), (1, WIDTH + 4))
    banned(logits, {1: sequence([1], [], Sampling(banned=bans), ends=frozenset((8,)))})
    assert left(logits[1]) == [id for id in range(WIDTH) if id != 8]
    assert bool(logits[[0, 2]].isfinite().all())


def test_all_but_the_allowed_and_the_ends_are_forbidden(logits: torch.Tensor) -> None:
    before = logits.clone()
    some = sequence([1], [], Sampling(allowed=frozenset((3, 5, WIDTH + 1))), ends=frozenset((9,)))
    none = sequence([1], [], Sampling(allowed=frozenset()), ends=frozenset((8,)))
    others(logits, {0: some, 2: none})
    assert [left(row) for row in logits] == [[3, 5, 9], list(range(WIDTH)), [8]]
    assert torch.equal(logits[0, [3, 5, 9]], before[0, [3, 5, 9]])


def test_beginnings_are_forbidden(logits: torch.Tensor) -> None:
    beginnings(logits, {1: sequence([1], [], Sampling(banned_first=frozenset((4, 5))))})
    assert left(logits[1]) == [id for id in range(WIDTH) if id not in (4, 5)]


def test_early_ends_are_forbidden_as_transformers_does(logits: torch.Tensor) -> None:
    expected = logits.clone()
    processor = MinNewTokensLengthLogitsProcessor(1, 3, [8, 9])
    expected[1:2] = processor(torch.tensor([[1, 2]]), logits[1:2])
    early(logits, {1: sequence([1], [2], min_tokens=3, ends=frozenset((8, 9, WIDTH + 5)))})
    assert torch.equal(logits, expected)


def test_a_constraint_leaves_what_it_allows_and_other_rows_alone(logits: torch.Tensor) -> None:
    before = logits.clone()
    constraint(logits, {0: sequence([1], [], matcher=Only((0, 31, 32, 63, 95, 99)))})
    assert logits[0].isfinite().nonzero().flatten().tolist() == [0, 31, 32, 63, 95, 99]
    assert torch.equal(logits[0, [31, 99]], before[0, [31, 99]])
    assert torch.equal(logits[1:], before[1:])


@pytest.mark.parametrize("words", [1, 2, 9])
def test_a_mask_of_another_width_forbids_what_it_does_not_name(logits: torch.Tensor, words: int) -> None:
    constraint(logits, {2: sequence([1], [], matcher=Only((5, 40), words))})
    assert logits[2].isfinite().nonzero().flatten().tolist() == [id for id in (5, 40) if id < 32 * words]


def test_a_matcher_that_allows_everything_changes_nothing(logits: torch.Tensor) -> None:
    before = logits.clone()
    constraint(logits, {0: sequence([1], [], matcher=Anything(())), 1: sequence([1], [], matcher=Only((4,)))})
    assert torch.equal(logits[0], before[0])
    assert logits[1].isfinite().nonzero().flatten().tolist() == [4]


def test_a_constraint_keeps_ends_away_while_anything_else_is_allowed(logits: torch.Tensor) -> None:
    short = {"min_tokens": 3, "ends": frozenset((8, 31))}
    constraint(
        logits,
        {
            0: sequence([1], [2], matcher=Only((7, 8, 31)), **short),
            1: sequence([1], [2], matcher=Only((8, 31)), **short),
            2: sequence([1], [2, 3, 4], matcher=Only((7, 8)), **short),
        },
    )
    allowed = [left(row) for row in logits]
    assert allowed == [[7], [8, 31], [7, 8]]


def test_an_early_end_is_allowed_where_a_ban_leaves_nothing_else_of_a_constraint(
    logits: torch.Tensor,
) -> None:
    logits[0, 7] = -torch.inf
    constraint(logits, {0: sequence([1], [], matcher=Only((7, 8)), min_tokens=3, ends=frozenset((8,)))})
    assert left(logits[0]) == [8]


def made(tokens: list[int], **sampling: object) -> Sequence:
    """A sequence of these tokens, of which the last is its answer."""
    return sequence(tokens[:-1], tokens[-1:], Sampling(**sampling))
