"""Penalties for what has come before: each against its formula or transformers' processor."""

import pytest
import torch
from transformers import RepetitionPenaltyLogitsProcessor

from inference.engine.penalties import repeats, repetition, shares, window
from inference.sampling import Sampling, Window
from tests.engine.answers import random_logits, sequence

WIDTH = 100


@pytest.fixture
def logits() -> torch.Tensor:
    return random_logits(3, WIDTH)


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


def test_frequency_share_follows_tgi_and_counts_the_prompt(logits: torch.Tensor) -> None:
    before = logits.clone()
    shares(logits, {1: sequence([1, 2, 2], [4, 2], Sampling(frequency_share=0.5))})
    expected = before.clone()
    for token, count in ((1, 1), (2, 3), (4, 1)):
        expected[1, token] -= count / 5 * 0.5
    assert torch.allclose(logits, expected, rtol=1e-6)
    assert torch.equal(logits[[0, 2]], before[[0, 2]])


def test_a_window_penalises_by_place_and_leaves_other_rows_alone(logits: torch.Tensor) -> None:
    before = logits.clone()
    given = Window((5, 6, 7), penalty=3.0, length=3, slope=1.0)
    window(logits, {2: sequence([5, 6, 7], [], Sampling(window=given))})
    expected = before.clone()
    for token, penalty in ((5, 1.0), (6, 2.0), (7, 3.0)):
        logit = before[2, token]
        expected[2, token] = logit * penalty if logit < 0 else logit / penalty
    assert torch.allclose(logits, expected, rtol=1e-6)


def test_of_an_encoder_decoder_the_decoders_tokens_are_penalised_as_in_transformers(
    logits: torch.Tensor,
) -> None:
    made = sequence([0], [8, 9], Sampling(repetition=1.5))
    made.source = (1, 2, 3)
    expected = RepetitionPenaltyLogitsProcessor(1.5)(torch.tensor([[0, 8, 9]]), logits[:1])
    repetition(logits, {0: made})
    assert torch.equal(logits[:1], expected)
