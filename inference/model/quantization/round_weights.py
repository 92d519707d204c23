"""Rounds weights to 8 or 4 bits with torch, to the integers and scales that the native library stores.

Rules: native/c/packing/quantize.c. Knows tensors on any device; neither models nor products.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn.functional import pad

from inference.native.packed_matrix import GROUP
from inference.native.structs import NativeDtype

INT8_MAX = 127
INT4_MIN, INT4_MAX = -8, 7
# Candidates for the integer that a group's largest value becomes, as in quantize.c.
LARGEST = (
    -8,
    -7.2,
    -7.4,
    -7.6,
    -7.8,
    -8.2,
    -8.4,
    -8.6,
    -8.8,
    -9,
    -9.3,
    -9.6,
    -10,
    -10.5,
    7,
    7.3,
    7.6,
    8,
    8.5,
)

RoundWeight = Callable[[Tensor], tuple[Tensor, Tensor]]  # weight (O, I) → int8 integers (O, I), and scales


def round_to_int8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Integers, and float32 scales (O, 1): each output's largest absolute value becomes INT8_MAX."""
    weight = weight.float()
    scales = weight.abs().amax(1, keepdim=True) / INT8_MAX
    return (weight * inverse(scales)).round_().clamp_(-INT8_MAX, INT8_MAX).to(torch.int8), scales


def round_to_int4(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Integers, and bfloat16 scales (O, I / GROUP) of groups of inputs; the last group may be smaller."""
    inputs = weight.shape[1]
    groups = pad(weight.float(), (0, -inputs % GROUP)).unflatten(1, (-1, GROUP))
    factors, scales = fit_groups(groups)
    integers = to_int4(groups, factors).to(torch.int8).flatten(1)[:, :inputs]
    return integers, scales[..., 0].to(torch.bfloat16)


def fit_groups(groups: Tensor) -> tuple[Tensor, Tensor]:
    """By group, the factor that turns values into integers and the scale (…, 1) with the least error."""
    inverses = inverse(groups.gather(-1, groups.abs().argmax(-1, keepdim=True)))
    factors, scales, errors = fit(groups, LARGEST[0] * inverses)
    for largest in LARGEST[1:]:
        candidate = fit(groups, largest * inverses)
        is_better = candidate[2] < errors
        best = (factors, scales, errors)
        factors, scales, errors = (
            torch.where(is_better, new, old) for new, old in zip(candidate, best, strict=True)
        )
    return factors, scales


def fit(groups: Tensor, factors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The factors, their least-squares scales in bfloat16's precision, and the squared error.

    The error lacks the sum of the squared values, which is the same for all factors.
    """
    integers = to_int4(groups, factors)
    products, squares = ((integers * other).sum(-1, keepdim=True) for other in (groups, integers))
    scales = (products * inverse(squares)).to(torch.bfloat16).float()
    return factors, scales, scales * (scales * squares - 2 * products)


def to_int4(groups: Tensor, factors: Tensor) -> Tensor:
    return (groups * factors).round_().clamp_(INT4_MIN, INT4_MAX)


def inverse(scales: Tensor) -> Tensor:
    """1 / scale, and 0 where the scale is 0."""
    return torch.where(scales == 0, 0.0, 1 / scales)


ROUND: Mapping[NativeDtype, RoundWeight] = {
    NativeDtype.INT8: round_to_int8,
    NativeDtype.INT4: round_to_int4,
}
