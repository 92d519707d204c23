"""The optimizers of a run, as torch computes them, with gradient clipping.

Knows parameters with gradients; not where the gradients come from.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from inference.errors import BadRequest

NO_CLIPPING = float("inf")
MAX_RATE = 1e6  # far above any use; a single step beyond 1e38 would leave weights that are not finite
MIN_EPS = 1e-37  # a smaller one is 0 in float32: a parameter without a gradient would become 0 / 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AdamParams:
    """The numbers of one optimizer step. grad_clip_norm: the largest norm of the gradients; 0: any."""

    learning_rate: float
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    grad_clip_norm: float = 1.0


ADAM_RANGES: Mapping[str, tuple[Callable[[float], bool], str]] = {
    "learning_rate": (lambda value: 0 <= value <= MAX_RATE, f"0 to {MAX_RATE:g}"),
    "beta1": (lambda value: 0 <= value < 1, "at least 0 and below 1"),
    "beta2": (lambda value: 0 <= value < 1, "at least 0 and below 1"),
    "eps": (lambda value: value >= MIN_EPS, f"at least {MIN_EPS:g}"),
    "weight_decay": (lambda value: 0 <= value <= MAX_RATE, f"0 to {MAX_RATE:g}"),
    "grad_clip_norm": (lambda value: value >= 0, "at least 0"),
}

OPTIMIZERS: Mapping[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": torch.optim.AdamW,  # decay decoupled from the gradient
    "adam": torch.optim.Adam,  # decay added to the gradient
    "sgd": torch.optim.SGD,
}


def check_optimizer(name: str) -> None:
    """Raise BadRequest for an unknown name."""
    if name not in OPTIMIZERS:
        raise BadRequest("optimizer", f"must be one of {', '.join(OPTIMIZERS)}", name)


def check_params(params: AdamParams) -> None:
    """Raise BadRequest for a number out of its range."""
    for name, (is_valid, rule) in ADAM_RANGES.items():
        value = getattr(params, name)
        if not (math.isfinite(value) and is_valid(value)):
            raise BadRequest(f"adam_params.{name}", f"must be {rule}, and finite", value)


def create_optimizer(name: str, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return OPTIMIZERS[name](list(parameters), lr=0.0, fused=True)


def take_step(optimizer: torch.optim.Optimizer, params: AdamParams) -> float:
    """Update the parameters, unless the norm of the gradients is not finite; the gradients are then gone.

    Returns the norm before clipping. A parameter without a gradient has the gradient 0: its moments decay.
    """
    group = optimizer.param_groups[0]
    for weight in group["params"]:
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
    norm = nn.utils.clip_grad_norm_(group["params"], params.grad_clip_norm or NO_CLIPPING).item()  # sync
    if math.isfinite(norm):
        group.update(lr=params.learning_rate, weight_decay=params.weight_decay)
        if "betas" in group:
            group.update(betas=(params.beta1, params.beta2), eps=params.eps)
        change_weights(optimizer)
    optimizer.zero_grad()
    return norm


def change_weights(optimizer: torch.optim.Optimizer) -> None:
    """Do a step. The first one allocates the moments: without memory for all of them, there are none."""
    has_moments = bool(optimizer.state)
    try:
        optimizer.step()
    except Exception:
        if not has_moments:
            optimizer.state.clear()
        raise


def num_steps(optimizer: torch.optim.Optimizer) -> int:
    """Steps of an Adam optimizer that change the moments of its parameters."""
    states = [optimizer.state[parameter] for parameter in optimizer.param_groups[0]["params"]]
    return max((int(state["step"]) for state in states if "step" in state), default=0)


def optimizer_tensors(optimizer: torch.optim.Optimizer, names: Iterable[str]) -> dict[str, Tensor]:
    """The optimizer's state, by the parameter's name and the state's, such as exp_avg."""
    parameters = optimizer.param_groups[0]["params"]
    return {
        f"{name}:{key}": value
        for name, parameter in zip(names, parameters, strict=True)
        for key, value in optimizer.state[parameter].items()
    }


def restore_optimizer(
    optimizer: torch.optim.Optimizer, names: Iterable[str], tensors: Mapping[str, Tensor]
) -> None:
    """Give the optimizer the state that optimizer_tensors returned. Raises BadRequest."""
    for name, parameter in zip(names, optimizer.param_groups[0]["params"], strict=True):
        state: dict[str, Any] = {
            key.rpartition(":")[2]: value for key, value in tensors.items() if key.rpartition(":")[0] == name
        }
        if tensors and not state:
            raise BadRequest("optimizer", f"has no state of {name}")
        optimizer.state[parameter] = {key: value.to(parameter.device) for key, value in state.items()}
