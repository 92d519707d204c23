"""Each loss against its formula, written out token by token, and its gradients."""

import math
from random import Random

import pytest
import torch
from torch import Tensor

from inference.errors import BadRequest
from tests.tuning.trainer.losses.formulas import FORMULAS, Row
from tuning.trainer.losses.table import LOSSES, complete_config, find_loss
from tuning.trainer.losses.token_losses import ScoredTokens

LENGTHS = (3, 5, 2, 4)


def scored_tokens(seed: int) -> ScoredTokens:
    """Four sequences, with the inputs of every loss."""
    generator = torch.Generator().manual_seed(seed)
    size = sum(LENGTHS)

    def uniform(low: float, high: float) -> Tensor:
        return torch.rand(size, generator=generator) * (high - low) + low

    logprobs = uniform(-3, -0.1).requires_grad_()
    near = logprobs.detach() + uniform(-0.5, 0.5)
    weights = (uniform(0, 1) > 0.3).float()
    weights[[0, 3, 8, 10]] = 1  # no sequence without a trained token
    return ScoredTokens(
        logprobs,
        torch.repeat_interleave(torch.arange(len(LENGTHS)), torch.tensor(LENGTHS)),
        len(LENGTHS),
        {
            "weights": weights,
            "logprobs": near,
            "reference_logprobs": near,
            "advantages": uniform(-1, 1),
            "sequence_ratio_mask": (uniform(0, 1) > 0.2).float(),
        },
    )


def rows_of(tokens: ScoredTokens) -> list[Row]:
    flat = [
        {"p": tokens.logprobs[i], **{name: values[i] for name, values in tokens.inputs.items()}}
        for i in range(len(tokens.logprobs))
    ]
    rows, start = [], 0
    for length in LENGTHS:
        rows.append(flat[start : start + length])
        start += length
    return rows


def test_every_loss_is_compared_with_its_formula() -> None:
    assert FORMULAS.keys() == LOSSES.keys()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_and_its_gradients_are_those_of_its_formula(name: str, seed: int) -> None:
    tokens = scored_tokens(seed)
    (expected_gradient,) = torch.autograd.grad(expected := FORMULAS[name](rows_of(tokens)), tokens.logprobs)
    config = {"kl": 0.3} if name == "kto" else {}
    if name == "kto":
        signs = torch.where(tokens.rows % 2 == 0, 1.0, -1.0)
        tokens.inputs["weights"].mul_(signs)  # type: ignore[attr-defined]
    loss = LOSSES[name].function(tokens, complete_config(LOSSES[name], config))
    (gradient,) = torch.autograd.grad(loss, tokens.logprobs)
    assert torch.allclose(loss, expected, rtol=1e-5, atol=1e-5)
    assert torch.allclose(gradient, expected_gradient, rtol=1e-5, atol=1e-5)


def test_the_first_loss_of_dpo_is_log_2_a_pair() -> None:
    tokens = scored_tokens(0)
    inputs = {**tokens.inputs, "reference_logprobs": tokens.logprobs.detach()}
    same = ScoredTokens(tokens.logprobs, tokens.rows, tokens.num_rows, inputs)
    loss = LOSSES["dpo_sigmoid"].function(same, {"beta": 0.1, "scale": 0.5})
    assert math.isclose(loss.item(), math.log(2), rel_tol=1e-6)


def test_targets_outside_of_the_mask_change_nothing() -> None:
    random = Random(0)
    for loss in LOSSES.values():
        for mask in loss.masks:
            tokens = scored_tokens(random.randrange(100))
            tokens.inputs[mask][::2] = 0
            value = loss.function(tokens, complete_config(loss, {}))
            (gradient,) = torch.autograd.grad(value, tokens.logprobs)
            assert not gradient[::2].any()


def test_an_unknown_loss_or_key_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadRequest, match=r"loss_fn must be one of cross_entropy, .*got 'sft'"):
        find_loss("sft")
    with pytest.raises(BadRequest, match="it has clip_low_threshold, clip_high_threshold, got 'beta'"):
        complete_config(find_loss("ppo"), {"beta": 1.0})
