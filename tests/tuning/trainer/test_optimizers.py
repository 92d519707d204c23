"""Optimizer steps against torch's own."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from transformers.trainer_pt_utils import get_parameter_names

from inference.errors import BadRequest
from tests.tiny_models.families import tiny
from tuning.trainer.optimizers import (
    MIN_EPS,
    AdamParams,
    check_params,
    create_optimizer,
    take_step,
    undecayed_names,
)

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


def named(*weights: nn.Parameter) -> dict[str, nn.Parameter]:
    return {str(place): weight for place, weight in enumerate(weights)}


def two_weights(seed: int = 0) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(3, 4, generator=generator)) for _ in range(2)]


@pytest.mark.parametrize("name", TORCH)
def test_steps_are_those_of_torch(name: str) -> None:
    own, expected = two_weights(), two_weights()
    optimizer, reference = create_optimizer(name, named(*own)), TORCH[name](expected)
    for step in range(5):
        for weight, other, gradient in zip(own, expected, two_weights(step + 1), strict=True):
            weight.grad, other.grad = gradient.detach().clone(), gradient.detach().clone()
        take_step(optimizer, PARAMS)
        reference.step()
    for weight, other in zip(own, expected, strict=True):
        assert torch.allclose(weight, other, atol=1e-6)


def test_gradients_are_clipped_and_their_norm_before_is_returned() -> None:
    (weight,) = [nn.Parameter(torch.zeros(2))]
    optimizer = create_optimizer("sgd", named(weight))
    weight.grad = torch.tensor([3.0, 4.0])
    norm = take_step(optimizer, AdamParams(learning_rate=1.0, grad_clip_norm=1.0))
    assert norm == 5.0
    assert torch.allclose(weight, torch.tensor([-0.6, -0.8]), atol=1e-5)
    assert weight.grad is None


def test_gradients_that_are_not_finite_change_nothing() -> None:
    weights = two_weights()
    before = [weight.detach().clone() for weight in weights]
    optimizer = create_optimizer("adamw", named(*weights))
    weights[0].grad = torch.full((3, 4), torch.inf)
    assert take_step(optimizer, PARAMS) == float("inf")
    assert all(torch.equal(weight, old) for weight, old in zip(weights, before, strict=True))
    assert weights[0].grad is None


def test_moments_move_without_a_gradient() -> None:
    weights = two_weights()
    optimizer = create_optimizer("adamw", named(*weights))
    for weight in weights:
        weight.grad = torch.ones(3, 4)
    take_step(optimizer, AdamParams(learning_rate=0.1))
    before = weights[0].detach().clone()
    assert take_step(optimizer, AdamParams(learning_rate=0.1)) == 0.0
    assert (weights[0] < before).all()


@pytest.mark.parametrize("name", TORCH)
def test_a_weight_that_does_not_decay_is_changed_by_its_gradient_alone(name: str) -> None:
    own, expected = two_weights(), two_weights()
    optimizer = create_optimizer(name, named(*own), undecayed={"1"})
    references = [
        create_optimizer(name, named(expected[0])),
        create_optimizer(name, named(expected[1])),
    ]
    for weight in (*own, *expected):
        weight.grad = torch.ones(3, 4)
    take_step(optimizer, PARAMS)
    for reference, decay in zip(references, (PARAMS.weight_decay, 0.0), strict=True):
        take_step(reference, replace(PARAMS, weight_decay=decay))
    assert all(map(torch.equal, own, expected))


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen3", "gemma2", "mamba", "mixtral", "t5"])
def test_biases_and_norms_do_not_decay_as_in_transformers(family: str) -> None:
    model = tiny(family)
    patterns = [r"bias", r"layernorm", r"rmsnorm", r"(?:^|\.)norm(?:$|\.)", r"_norm(?:$|\.)"]
    decays = get_parameter_names(model, [nn.LayerNorm], patterns)
    names = dict(model.named_parameters())
    assert undecayed_names(model, names) == names.keys() - set(decays)


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
    take_step(create_optimizer("adamw", named(*weights)), params)
    assert torch.equal(weights[0], before)
