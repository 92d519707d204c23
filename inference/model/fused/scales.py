"""Numbers that a model multiplies with, found in what was seen: after the embedding, before the logits.

Knows tensors alone.
"""

import torch
from torch import Tensor

from inference.model.unfit import Unfit

CLOSE = 0.02  # of the largest value: half precision rounds to a fifth of that
NEARLY = 1e-3  # what rounding leaves of 1


def factor(name: str, before: Tensor, after: Tensor, exact: bool = False) -> float:
    """The number by which one was multiplied to be the other; exact: it must be 1. Raises Unfit where it is
    not."""
    before, after = before.float().flatten(), after.float().flatten()
    found = (torch.dot(before, after) / torch.dot(before, before)).item()
    if abs(found - 1) < NEARLY:
        found = 1.0
    if not (after - found * before).abs().max() <= CLOSE * after.abs().max():
        raise Unfit(f"{name} are not multiplied with a number")
    if exact and found != 1:
        raise Unfit(f"{name} are multiplied with {found:.3g}, and there is a bias")
    return found


def uncapped(capped: Tensor, cap: float) -> Tensor:
    """x, of cap × tanh(x / cap)."""
    return cap * torch.atanh(capped.float() / cap) if cap else capped
