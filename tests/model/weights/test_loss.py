"""What is told of logits that changed."""

import pytest
import torch

from inference.model.weights.loss import loss


def logits(*rows: tuple[float, ...]) -> torch.Tensor:
    return torch.tensor(rows)


def test_nothing_is_lost_where_nothing_changed() -> None:
    same = [torch.randn(3, 9), torch.randn(2, 9)]
    found = loss(same, same)
    assert (found.tokens, found.same) == (5, 5)
    assert (found.largest, found.typical) == (0.0, 0.0)
    assert found.divergence == pytest.approx(0.0, abs=1e-6)


def test_changes_are_counted_in_standard_deviations() -> None:
    before = logits((1.0, -1.0, 1.0, -1.0), (1.0, -1.0, 1.0, -1.0))
    after = before + logits((0.5, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0))
    spread = float(before.std())
    found = loss([before], [after])
    assert found.largest == pytest.approx(0.5 / spread)
    assert found.typical == pytest.approx(0.5 / spread / 8**0.5)


def test_a_choice_that_turned_and_the_divergence_are_told() -> None:
    before, after = logits((2.0, 0.0), (0.0, 1.0)), logits((0.0, 2.0), (0.0, 1.0))
    found = loss([before], [after])
    first, second = torch.tensor([2.0, 0.0]).softmax(0), torch.tensor([0.0, 2.0]).softmax(0)
    assert (found.same, found.tokens) == (1, 2)
    assert found.divergence == pytest.approx(float((first * (first / second).log()).sum()) / 2)
    assert "same choice behind 1 of 2 tokens" in str(found)
