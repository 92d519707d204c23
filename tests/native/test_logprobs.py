"""The C library's log probabilities and their gradients: torch's, row by row."""

import pytest
import torch
from torch import Tensor

from inference.native.cpu_levels import Level
from inference.native.logprobs import token_logprobs

WIDTHS = (5, 256, 1000)
ROUNDING = {torch.float32: 1e-6, torch.bfloat16: 1 / 256}  # of a gradient, relative


def random_logits(num_rows: int, width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Logits, the first of -infinity, and an id of each row."""
    logits = 4 * torch.randn(num_rows, width)
    logits[:, 0] = -torch.inf
    return logits.to(dtype), torch.randint(1, width, (num_rows,))


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("width", WIDTHS)
def test_values_and_gradients_are_those_of_float64(level: Level, width: int, dtype: torch.dtype) -> None:
    logits, ids = random_logits(6, width, dtype)
    exact = logits.double().requires_grad_()
    expected = exact.log_softmax(-1).gather(1, ids[:, None])[:, 0]
    (expected_gradients,) = torch.autograd.grad(expected.sum(), exact)
    gradients = torch.full_like(logits, torch.nan)
    logprobs, top_ids = token_logprobs(logits, ids, gradients)
    assert torch.allclose(logprobs.double(), expected, atol=2e-6)
    assert torch.equal(top_ids, logits.float().argmax(-1))
    assert torch.allclose(gradients.double(), expected_gradients, rtol=ROUNDING[dtype], atol=1e-6)


def test_an_even_row_of_a_large_vocabulary_loses_no_bits(level: Level) -> None:
    logprobs, _ = token_logprobs(torch.zeros(1, 200_000), torch.tensor([7]), None)
    assert logprobs.item() == pytest.approx(-torch.tensor(200_000.0).log().item(), abs=1e-6)


def test_rows_of_a_wider_tensor_have_the_same_bits_alone_and_among_others(level: Level) -> None:
    logits, ids = random_logits(9, 300, torch.bfloat16)
    rows, gradients = logits[:, 20:290], torch.empty(9, 270, dtype=torch.bfloat16)
    logprobs, _ = token_logprobs(rows, ids % 270, gradients)
    for row in range(9):
        own = torch.empty(1, 270, dtype=torch.bfloat16)
        alone, _ = token_logprobs(rows[[row]], ids[[row]] % 270, own)
        assert torch.equal(alone, logprobs[[row]]) and torch.equal(own, gradients[[row]])


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_only_a_row_that_is_not_finite_is_nan(level: Level, value: float) -> None:
    logits, ids = random_logits(3, 40, torch.float32)
    logits[1, 3] = value
    gradients = torch.empty_like(logits)
    logprobs, _ = token_logprobs(logits, ids, gradients)
    assert logprobs.isnan().tolist() == [False, True, False]
    assert gradients.isnan().all(-1).tolist() == [False, True, False]
    assert gradients[::2].isfinite().all()


def test_a_row_of_minus_infinity_alone_is_nan(level: Level) -> None:
    logits = torch.full((1, 40), -torch.inf)
    logprobs, _ = token_logprobs(logits, torch.tensor([2]), None)
    assert logprobs.isnan().all()
