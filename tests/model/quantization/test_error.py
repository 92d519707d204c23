"""The errors reported for logits that quantization changed."""

import pytest
import torch

from inference.model.quantization.error import measure_quant_error


def logits(*rows: tuple[float, ...]) -> torch.Tensor:
    return torch.tensor(rows)


def test_unchanged_logits_have_no_error() -> None:
    same = [torch.randn(3, 9), torch.randn(2, 9)]
    quant_error = measure_quant_error(same, same)
    assert (quant_error.tokens, quant_error.same_argmax) == (5, 5)
    assert (quant_error.max_error, quant_error.rms) == (0.0, 0.0)
    assert quant_error.divergence == pytest.approx(0.0, abs=1e-6)


def test_changes_are_counted_in_standard_deviations() -> None:
    before = logits((1.0, -1.0, 1.0, -1.0), (1.0, -1.0, 1.0, -1.0))
    after = before + logits((0.5, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0))
    spread = float(before.std())
    quant_error = measure_quant_error([before], [after])
    assert quant_error.max_error == pytest.approx(0.5 / spread)
    assert quant_error.rms == pytest.approx(0.5 / spread / 8**0.5)


def test_a_changed_argmax_and_the_divergence_are_reported() -> None:
    before, after = logits((2.0, 0.0), (0.0, 1.0)), logits((0.0, 2.0), (0.0, 1.0))
    quant_error = measure_quant_error([before], [after])
    first, second = torch.tensor([2.0, 0.0]).softmax(0), torch.tensor([0.0, 2.0]).softmax(0)
    assert (quant_error.same_argmax, quant_error.tokens) == (1, 2)
    assert quant_error.divergence == pytest.approx(float((first * (first / second).log()).sum()) / 2)
    assert "same argmax after 1 of 2 tokens" in str(quant_error)
