"""What a norm multiplies with, found by giving it vectors: x / √(mean(x²) + ε) × w, where w is the norm's
weight, or 1 more than that.

Knows no norm's class; what is something else is refused.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from inference.model.unfit import Unfit

EPSILONS = ("variance_epsilon", "eps", "epsilon")  # names that norms have for ε
MAGNITUDES = (1.0, 1e-3)  # of the vectors given: beside the second, ε is seen
ULPS = 8  # by which a module's own rounding may differ
LEAST = 1e-5


class Norm(NamedTuple):
    """weight (width,), float32."""

    weight: Tensor
    epsilon: float


@torch.inference_mode()
def norm_of(module: nn.Module, width: int, dtype: torch.dtype) -> Norm:
    """What the module computes, of vectors so wide. Raises Unfit where it is no such norm."""
    name = type(module).__name__
    epsilon = next((value for key in EPSILONS if (value := getattr(module, key, None)) is not None), None)
    if not isinstance(epsilon, float):
        raise Unfit(f"{name} says no epsilon")
    weights = weights_of(module, width)
    given = sample(width).to(dtype)
    made = module(given[None])[0].float()
    plain = given.float() * torch.rsqrt(given.float().pow(2).mean(-1, keepdim=True) + epsilon)
    for weight in weights:
        error = (made - plain * weight).abs().amax(-1)
        allowed = max(ULPS * torch.finfo(dtype).eps, LEAST) * (plain * weight).abs().amax(-1)
        if bool((error <= allowed).all()):
            return Norm(weight.contiguous(), epsilon)
    raise Unfit(f"{name} of width {width} is no norm that is known here")


def weights_of(module: nn.Module, width: int) -> tuple[Tensor, ...]:
    """What it may multiply with. Raises Unfit where it is of another width."""
    weight = getattr(module, "weight", None)
    if weight is None:
        return (torch.ones(width),)
    if weight.shape != (width,):
        raise Unfit(f"{type(module).__name__} is of shape {tuple(weight.shape)}, not {(width,)}")
    return weight.detach().float(), 1 + weight.detach().float()


def sample(width: int) -> Tensor:
    """Vectors that are neither centred nor even, (2, width)."""
    at = torch.arange(1, width + 1, dtype=torch.float64)
    vector = torch.sin(at * at) + 0.5
    return torch.stack([vector * magnitude for magnitude in MAGNITUDES]).float()
