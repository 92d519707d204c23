"""Bias, penalties, early ends and constraints: each against its formula or transformers' processor."""

from dataclasses import dataclass

import pytest
import torch
from transformers import MinNewTokensLengthLogitsProcessor, RepetitionPenaltyLogitsProcessor

from inference.engine.edits import bias, constraint, early, repeats, repetition
from inference.engine.sequence import Sequence, Task
from inference.sampling import Sampling

WIDTH = 100


class Nowhere:
    def put(self, record: object) -> None:
        raise AssertionError("nothing is sent in these tests")


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


def sequence(
    prompt: list[int], answer: list[int], sampling: Sampling | None = None, **task: object
) -> Sequence:
    made = Sequence(0, Task(tuple(prompt), 100, sampling or Sampling(), **task), Nowhere(), list(prompt))
    made.tokens += answer
    return made


@pytest.fixture
def logits() -> torch.Tensor:
    return torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(1))


def test_a_repetition_penalty_does_what_transformers_does(logits: torch.Tensor) -> None:
    expected = logits.clone()
    rows = {
        0: sequence([1, 2, 2, 3], [4, 4, 5], Sampling(repetition=1.3)),
        2: sequence([7], [9, 7, 50, 99], Sampling(repetition=0.8)),
    }
    for row, s in rows.items():
        processor = RepetitionPenaltyLogitsProcessor(s.task.sampling.repetition)
        expected[row : row + 1] = processor(torch.tensor([s.tokens]), logits[row : row + 1])
    repetition(logits, rows)
    assert torch.equal(logits, expected)


def test_presence_and_frequency_follow_openai_and_spare_the_prompt(logits: torch.Tensor) -> None:
    before = logits.clone()
    repeats(logits, {1: sequence([1, 2, 3], [4, 4, 5], Sampling(presence=0.5, frequency=0.25))})
    expected = before.clone()
    expected[1, 4] -= 2 * 0.25 + 0.5
    expected[1, 5] -= 1 * 0.25 + 0.5
    assert torch.equal(logits, expected)


def test_a_bias_is_added_and_ids_beyond_the_logits_are_ignored(logits: torch.Tensor) -> None:
    before = logits.clone()
    biases = {3: 5.0, 9: -100.0, WIDTH: 7.0, -1: 7.0}
    bias(logits, {0: sequence([1], [], Sampling(bias=biases)), 2: sequence([1], [], Sampling(bias={0: 1.0}))})
    expected = before.clone()
    expected[0, 3] += 5
    expected[0, 9] -= 100
    expected[2, 0] += 1
    assert torch.equal(logits, expected)


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
    allowed = [row.isfinite().nonzero().flatten().tolist() for row in logits]
    assert allowed == [[7], [8, 31], [7, 8]]
