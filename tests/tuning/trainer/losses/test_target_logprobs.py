"""Log probabilities by blocks equal those of all logits at once, with their gradients."""

import pytest
import torch

from tuning.trainer.losses import target_logprobs as module
from tuning.trainer.losses.target_logprobs import target_logprobs, tokens_per_block

VOCAB, WIDTH, TOKENS = 50, 8, 100


def test_blocks_change_neither_values_nor_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    head, hidden = (
        torch.randn(VOCAB, WIDTH, requires_grad=True),
        torch.randn(TOKENS, WIDTH, requires_grad=True),
    )
    targets = torch.randint(VOCAB, (TOKENS,))
    expected = (hidden @ head.T).log_softmax(-1).gather(1, targets[:, None])[:, 0]
    expected_gradients = torch.autograd.grad(expected.square().sum(), (head, hidden))
    largest: list[int] = []

    def logits_of(block: torch.Tensor) -> torch.Tensor:
        largest.append(len(block))
        return block @ head.T

    monkeypatch.setattr(module, "LOGITS_BYTES", {"cpu": 4 * VOCAB * 30})
    logprobs, is_top = target_logprobs(logits_of, hidden, targets, VOCAB, frozen_output=False)
    gradients = torch.autograd.grad(logprobs.square().sum(), (head, hidden))
    assert max(largest) == 30
    assert torch.allclose(logprobs, expected, atol=1e-5)
    assert torch.equal(is_top, (hidden @ head.T).argmax(-1) == targets)
    for gradient, other in zip(gradients, expected_gradients, strict=True):
        assert torch.allclose(gradient, other, atol=1e-4)


@pytest.mark.parametrize("rows_per_block", [16, TOKENS])
def test_several_targets_behind_a_token_are_those_of_its_logits(
    monkeypatch: pytest.MonkeyPatch, rows_per_block: int
) -> None:
    torch.manual_seed(1)
    head, hidden = (
        torch.randn(VOCAB, WIDTH, requires_grad=True),
        torch.randn(TOKENS, WIDTH, requires_grad=True),
    )
    places = torch.arange(TOKENS).repeat_interleave(torch.randint(0, 4, (TOKENS,)))
    targets = torch.randint(VOCAB, (len(places),))
    expected = (hidden @ head.T).log_softmax(-1)[places, targets]
    expected_gradients = torch.autograd.grad(expected.square().sum(), (head, hidden))
    monkeypatch.setattr(module, "LOGITS_BYTES", {"cpu": 4 * VOCAB * rows_per_block})
    logprobs, is_top = target_logprobs(
        lambda block: block @ head.T, hidden, targets, VOCAB, places, frozen_output=False
    )
    gradients = torch.autograd.grad(logprobs.square().sum(), (head, hidden))
    assert torch.allclose(logprobs, expected, atol=1e-5)
    assert torch.equal(is_top, (hidden @ head.T).argmax(-1)[places] == targets)
    for gradient, other in zip(gradients, expected_gradients, strict=True):
        assert torch.allclose(gradient, other, atol=1e-4)


def test_logits_of_a_frozen_output_layer_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(2)
    head, hidden = torch.randn(VOCAB, WIDTH), torch.randn(TOKENS, WIDTH, requires_grad=True)
    targets = torch.randint(VOCAB, (TOKENS,))
    expected = (hidden @ head.T / 9).tanh().log_softmax(-1).gather(1, targets[:, None])[:, 0]
    (expected_gradient,) = torch.autograd.grad(expected.exp().sum(), hidden)
    num_rows: list[int] = []

    def logits_of(block: torch.Tensor) -> torch.Tensor:
        num_rows.append(len(block))
        return (block @ head.T / 9).tanh()

    monkeypatch.setattr(module, "LOGITS_BYTES", {"cpu": 4 * VOCAB * 30})
    logprobs, is_top = target_logprobs(logits_of, hidden, targets, VOCAB, frozen_output=True)
    (gradient,) = torch.autograd.grad(logprobs.exp().sum(), hidden)
    assert num_rows == [30, 30, 30, 10]
    assert torch.allclose(logprobs, expected, atol=1e-5)
    assert torch.equal(is_top, (hidden @ head.T).argmax(-1) == targets)
    assert torch.allclose(gradient, expected_gradient, atol=1e-5)


def test_a_block_is_bounded_by_bytes_but_never_tiny() -> None:
    assert tokens_per_block(150_000, "cpu") * 150_000 * 4 <= 1 << 26
    assert tokens_per_block(100_000_000, "cpu") == 16
