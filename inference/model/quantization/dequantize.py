"""Turns the values of round_weights.py back into weights: in torch, or 4 bits on a GPU by a Triton kernel.

The kernel is used only where it computes what torch does.
"""

import logging
from collections.abc import Callable, Mapping
from functools import cache

import torch
from torch import Tensor

from inference.errors import named_error
from inference.model.quantization.round_weights import INT4_MIN, round_to_int4
from inference.native.packed_matrix import GROUP
from inference.native.structs import NativeDtype

log = logging.getLogger(__name__)

# (values, scales, dtype) → weight (O, I) in the dtype; I is padded to whole groups if the values are.
Decode = Callable[[Tensor, Tensor | None, torch.dtype], Tensor]


def cast(values: Tensor, scales: Tensor | None, dtype: torch.dtype) -> Tensor:
    return values.to(dtype)


def from_int8(values: Tensor, scales: Tensor | None, dtype: torch.dtype) -> Tensor:
    """One kernel of torch: products are computed in float32 and stored in the dtype of `out`."""
    assert scales is not None
    return torch.mul(values, scales, out=torch.empty_like(values, dtype=dtype))


def from_int4(values: Tensor, scales: Tensor | None, dtype: torch.dtype) -> Tensor:
    assert scales is not None
    if values.is_cuda and is_verified(values.device, dtype):
        return _from_int4_by_kernel(values, scales, dtype)
    return from_int4_by_torch(values, scales, dtype)


def from_int4_by_torch(values: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    integers = torch.stack((values & 15, values >> 4), -1).to(torch.int8).add_(INT4_MIN)
    groups = integers.view(len(values), -1, GROUP)
    weight = torch.empty_like(groups, dtype=dtype)
    return torch.mul(groups, scales.float()[..., None], out=weight).flatten(1)


def _from_int4_by_kernel(values: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    from inference.model.quantization import triton_dequantize

    return triton_dequantize.from_int4(values.contiguous(), scales.contiguous(), dtype)


@cache
@torch.no_grad()
def is_verified(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the kernel can be compiled for the device and agrees with torch."""
    generator = torch.Generator().manual_seed(0)
    values, scales = round_to_int4(torch.randn(40, 3 * GROUP, generator=generator).to(device))
    try:
        weight = _from_int4_by_kernel(values, scales, dtype)
    except Exception as raised:  # third-party code: any exception rejects the kernel
        log.info("4-bit weights on %s: torch, Triton kernel rejected: %s", device, named_error(raised))
        return False
    is_right = torch.equal(weight, from_int4_by_torch(values, scales, dtype))
    log.info(
        "4-bit weights on %s: Triton kernel in %s %s", device, dtype, "verified" if is_right else "is wrong"
    )
    return is_right


DECODERS: Mapping[NativeDtype, Decode] = {
    NativeDtype.F32: cast,
    NativeDtype.BF16: cast,
    NativeDtype.INT8: from_int8,
    NativeDtype.INT4: from_int4,
}
