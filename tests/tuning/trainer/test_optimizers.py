"""Optimizer steps against torch's own."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from inference.errors import BadRequest
from tuning.trainer.optimizers import MIN_EPS, AdamParams, check_params, create_optimizer, take_step

TORCH = {
    "adamw": lambda weights: torch.optim.AdamW(
        weights, lr=0.1, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.2, fused=False
    ),
    "adam": lambda weights: torch.optim.Adam(
        weights, lr=0.1, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.2, fused=False
    ),
    "sgd": lambda weights: torch.optim.SGD(weights, lr=0.1, weight_decay=0.2, fused=False),
}
PARAMS = AdamParams(learning_rate=0.1, beta1=0.8, beta2=0.9, eps=1e-6, weight_decay=0.2, grad_clip_norm=0.0)


def two_weights(seed: int = 0) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(3, 4, generator=generator)) for _ in range(2)]


@pytest.mark.parametrize("name", TORCH)
def test_steps_are_those_of_torch(name: str) -> None:
    own, expected = two_weights(), two_weights()
    optimizer, reference = create_optimizer(name, own), TORCH[name](expected)
    for step in range(5):
        for weight, other, gradient in zip(own, expected, two_weights(step + 1), strict=True):
            weight.grad, other.grad = gradient.detach().clone(), gradient.detach().clone()
        take_step(optimizer, PARAMS)
        reference.step()
    for weight, other in zip(own, expected, strict=True):
        assert torch.allclose(weight, other, atol=1e-6)


def test_gradients_are_clipped_and_their_norm_before_is_returned() -> None:
    (weight,) = [nn.Parameter(torch.zeros(2))]
    optimizer = create_optimizer("sgd", [weight])
    weight.grad = torch.tensor([3.0, 4.0])
    norm = take_step(optimizer, AdamParams(learning_rate=1.0, grad_clip_norm=1.0))
    assert norm == 5.0
    assert torch.allclose(weight, torch.tensor([-0.6, -0.8]), atol=1e-5)
    assert weight.grad is None


def test_gradients_that_are_not_finite_change_nothing() -> None:
    weights = two_weights()
    before = [weight.detach().clone() for weight in weights]
    optimizer = create_optimizer("adamw", weights)
    weights[0].grad = torch.full((3, 4), torch.inf)
    assert take_step(optimizer, PARAMS) == float("inf")
    assert all(torch.equal(weight, old) for weight, old in zip(weights, before, strict=True))
    assert weights[0].grad is None


def test_moments_move_without_a_gradient() -> None:
    weights = two_weights()
    optimizer = create_optimizer("adamw", weights)
    for weight in weights:
        weight.grad = torch.ones(3, 4)
    take_step(optimizer, AdamParams(learning_rate=0.1))
    before = weights[0].detach().clone()
    assert take_step(optimizer, AdamParams(learning_rate=0.1)) == 0.0
    assert (weights[0] < before).all()


@pytest.mark.parametrize("name", ["learning_rate", "weight_decay"])
@pytest.mark.parametrize("value", [-0.1, 1e308, float("inf"), float("nan")])
def test_rates_that_would_spoil_the_weights_are_refused(name: str, value: float) -> None:
    with pytest.raises(BadRequest, match=f"adam_params.{name}"):
        check_params(replace(PARAMS, **{name: value}))


@pytest.mark.parametrize("value", [1e-320, 1e-45, 0.0])
def test_an_eps_that_is_0_in_float32_is_refused(value: float) -> None:
    with pytest.raises(BadRequest, match=r"adam_params\.eps must be at least 1e-37"):
        check_params(replace(PARAMS, eps=value))


def test_the_smallest_eps_keeps_a_weight_without_a_gradient() -> None:
    weights = two_weights()
    before = weights[0].detach().clone()
    params = replace(PARAMS, eps=MIN_EPS, weight_decay=0.0)
    check_params(params)
    take_step(create_optimizer("adamw", weights), params)
    assert torch.equal(weights[0], before)
