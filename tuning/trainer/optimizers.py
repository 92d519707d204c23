"""The optimizers of a run, as torch computes them, with gradient clipping.

Knows parameters with gradients; not where the gradients come from.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
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

# Names of weights that do not decay, beside those of nn.LayerNorm: as in transformers,
# Trainer.get_decay_parameter_names.
UNDECAYED = re.compile(r"bias|layernorm|rmsnorm|(?:^|\.)norm(?:$|\.)|_norm(?:$|\.)")
DECAYS = "decays"  # a key of the optimizer's groups

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


def undecayed_names(model: nn.Module, names: Iterable[str]) -> set[str]:
    """Those of the weights of a model that do not decay: biases, and weights of norms."""
    layer_norms = tuple(f"{name}." for name, each in model.named_modules() if isinstance(each, nn.LayerNorm))
    return {name for name in names if UNDECAYED.search(name.lower()) or name.startswith(layer_norms)}


def create_optimizer(
    name: str, parameters: Mapping[str, nn.Parameter], undecayed: Collection[str] = ()
) -> torch.optim.Optimizer:
    """undecayed: names of the parameters to which no weight_decay applies."""
    groups = [
        {
            "params": [weight for name, weight in parameters.items() if (name not in undecayed) is decays],
            DECAYS: decays,
        }
        for decays in (True, False)
    ]
    return OPTIMIZERS[name](groups, lr=0.0, fused=True)


def take_step(optimizer: torch.optim.Optimizer, params: AdamParams) -> float:
    """Update the parameters, unless the norm of the gradients is not finite; the gradients are then gone.

    Returns the norm before clipping. A parameter without a gradient has the gradient 0: its moments decay.
    """
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    for weight in weights:
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
    norm = nn.utils.clip_grad_norm_(weights, params.grad_clip_norm or NO_CLIPPING).item()  # sync
    if math.isfinite(norm):
        for group in optimizer.param_groups:
            set_params(group, params)
        change_weights(optimizer)
    optimizer.zero_grad()
    return norm


def set_params(group: dict[str, Any], params: AdamParams) -> None:
    group.update(lr=params.learning_rate, weight_decay=params.weight_decay if group[DECAYS] else 0.0)
    if "betas" in group:
        group.update(betas=(params.beta1, params.beta2), eps=params.eps)


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
    return max((int(state["step"]) for state in optimizer.state.values() if "step" in state), default=0)


def optimizer_tensors(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, nn.Parameter]
) -> dict[str, Tensor]:
    """The optimizer's state, by the parameter's name and the state's, such as exp_avg."""
    return {
        f"{name}:{key}": value
        for name, parameter in parameters.items()
        for key, value in optimizer.state[parameter].items()
    }


def restore_optimizer(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, nn.Parameter], tensors: Mapping[str, Tensor]
) -> None:
    """Give the optimizer the state that optimizer_tensors returned. Raises BadRequest."""
    for name, parameter in parameters.items():
        state: dict[str, Any] = {
            key.rpartition(":")[2]: value for key, value in tensors.items() if key.rpartition(":")[0] == name
        }
        if tensors and not state:
            raise BadRequest("optimizer", f"has no state of {name}")
        optimizer.state[parameter] = {key: value.to(parameter.device) for key, value in state.items()}
