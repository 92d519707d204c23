"""Each penalty against its formula or transformers' processor; window weights against worked examples."""

import pytest
import torch
from transformers import RepetitionPenaltyLogitsProcessor

from inference.engine.sampling.penalties import (
    apply_count_penalties,
    apply_repetition_penalty,
    apply_tgi_frequency_penalty,
    apply_window_penalty,
    window_weights,
)
from inference.engine.sampling.warpers import MIN_TEMPERATURE
from inference.sampling import PenaltyWindow, Sampling
from inference.validation import MAX_PENALTY, MIN_PENALTY
from tests.engine.sequences import make_sequence, random_logits

WIDTH = 100


@pytest.fixture
def logits() -> torch.Tensor:
    return random_logits(3, WIDTH)


def test_a_repetition_penalty_does_what_transformers_does(logits: torch.Tensor) -> None:
    expected = logits.clone()
    rows = {
        0: make_sequence([1, 2, 2, 3], [4, 4, 5], Sampling(repetition_penalty=1.3)),
        2: make_sequence([7], [9, 7, 50, 99], Sampling(repetition_penalty=0.8)),
    }
    for row, s in rows.items():
        processor = RepetitionPenaltyLogitsProcessor(s.request.sampling.repetition_penalty)
        expected[row : row + 1] = processor(torch.tensor([s.token_ids]), logits[row : row + 1])
    apply_repetition_penalty(logits, rows)
    assert torch.equal(logits, expected)


@pytest.mark.parametrize("penalty", [MIN_PENALTY, MAX_PENALTY])
def test_the_strongest_penalties_leave_finite_logits_at_the_lowest_temperature(penalty: float) -> None:
    logits = torch.linspace(-1e4, 1e4, WIDTH).repeat(1, 1)
    every_id = list(range(WIDTH))
    apply_repetition_penalty(logits, {0: make_sequence(every_id, [], Sampling(repetition_penalty=penalty))})
    assert (logits / MIN_TEMPERATURE).isfinite().all()


def test_presence_and_frequency_follow_openai_and_ignore_the_prompt(logits: torch.Tensor) -> None:
    before = logits.clone()
    apply_count_penalties(
        logits,
        {1: make_sequence([1, 2, 3], [4, 4, 5], Sampling(presence_penalty=0.5, frequency_penalty=0.25))},
    )
    expected = before.clone()
    expected[1, 4] -= 2 * 0.25 + 0.5
    expected[1, 5] -= 1 * 0.25 + 0.5
    assert torch.equal(logits, expected)


def test_tgi_frequency_follows_tgi_and_counts_the_prompt(logits: torch.Tensor) -> None:
    before = logits.clone()
    apply_tgi_frequency_penalty(
        logits, {1: make_sequence([1, 2, 2], [4, 2], Sampling(tgi_frequency_penalty=0.5))}
    )
    expected = before.clone()
    for token, count in ((1, 1), (2, 3), (4, 1)):
        expected[1, token] -= count / 5 * 0.5
    assert torch.allclose(logits, expected, rtol=1e-6)
    assert torch.equal(logits[[0, 2]], before[[0, 2]])


def test_a_window_penalises_by_position_and_leaves_other_rows_alone(logits: torch.Tensor) -> None:
    before = logits.clone()
    penalty_window = PenaltyWindow((5, 6, 7), penalty=3.0, length=3, slope=1.0)
    apply_window_penalty(logits, {2: make_sequence([5, 6, 7], [], Sampling(penalty_window=penalty_window))})
    expected = before.clone()
    for token, penalty in ((5, 1.0), (6, 2.0), (7, 3.0)):
        logit = before[2, token]
        expected[2, token] = logit * penalty if logit < 0 else logit / penalty
    assert torch.allclose(logits, expected, rtol=1e-6)


def test_the_decoders_tokens_of_an_encoder_decoder_are_penalised_as_in_transformers(
    logits: torch.Tensor,
) -> None:
    seq = make_sequence([0], [8, 9], Sampling(repetition_penalty=1.5))
    seq.encoder_ids = (1, 2, 3)
    expected = RepetitionPenaltyLogitsProcessor(1.5)(torch.tensor([[0, 8, 9]]), logits[:1])
    apply_repetition_penalty(logits, {0: seq})
    assert torch.equal(logits[:1], expected)


def test_without_a_slope_all_in_the_window_weigh_the_same() -> None:
    assert window_weights(PenaltyWindow((1, 2, 3), 1.5, 2), []) == {2: 1.5, 3: 1.5}
    assert window_weights(PenaltyWindow((1, 2, 3), 1.5, 1, slope=4.0), []) == {3: 1.5}


def test_a_straight_slope_rises_from_one_to_the_penalty() -> None:
    assert window_weights(PenaltyWindow((1, 2, 3), 3.0, 3, slope=1.0), []) == {1: 1.0, 2: 2.0, 3: 3.0}


def test_a_steep_slope_is_an_s() -> None:
    rising = list(window_weights(PenaltyWindow(tuple(range(9)), 2.0, 9, slope=4.0), []).values())
    assert rising == sorted(rising) and rising[0] == 1.0 and rising[4] == 1.5 and rising[8] == 2.0
    assert rising[1] < 1.125 and rising[7] > 1.875


def test_the_last_occurrence_of_a_token_counts() -> None:
    assert window_weights(PenaltyWindow((1, 2, 1), 3.0, 3, slope=1.0), []) == {1: 3.0, 2: 2.0}


def test_a_window_longer_than_the_text_begins_before_it_unless_clamped() -> None:
    assert window_weights(PenaltyWindow((1, 2), 5.0, 5, slope=1.0), []) == {1: 4.0, 2: 5.0}
    assert window_weights(PenaltyWindow((1, 2), 5.0, 5, slope=1.0, clamp_length=True), []) == {1: 1.0, 2: 5.0}


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("ignore", {2: 1.0, 3: 3.0}),
        ("slide", {3: 1.0, 4: 3.0}),
        ("expand", {2: 1.0, 3: 2.0, 4: 3.0}),
    ],
)
def test_the_scope_decides_how_generated_tokens_change_the_window(
    scope: str, expected: dict[int, float]
) -> None:
    assert window_weights(PenaltyWindow((1, 2, 3), 3.0, 2, slope=1.0, scope=scope), [4]) == expected


@pytest.mark.parametrize("scope", ["ignore", "slide", "expand"])
def test_an_empty_window_or_a_length_of_zero_penalises_nothing(scope: str) -> None:
    assert window_weights(PenaltyWindow((), 2.0, 5, slope=2.0, scope=scope), []) == {}
    assert window_weights(PenaltyWindow((1, 2), 2.0, 0, slope=2.0, scope=scope), []) == {}


def test_a_huge_window_costs_no_more_than_its_text() -> None:
    reaching = window_weights(PenaltyWindow((1, 2), 2.0, 10**12, slope=1.0), [3])
    assert list(reaching) == [1, 2, 3] and reaching[3] == 2.0
