"""Dequantizes 4-bit weights in one pass of a Triton kernel: torch needs six."""

import torch
import triton
import triton.language as tl

from inference.model.quantization.round_weights import INT4_MIN
from inference.native.packed_matrix import GROUP

BLOCK = 128  # groups of a program


def from_int4(values: torch.Tensor, scales: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """values (O, I / 2) and scales (O, I / GROUP), both contiguous, as round_to_int4 returns them: (O, I)."""
    weight = values.new_empty(values.shape[0], 2 * values.shape[1], dtype=dtype)
    num_groups = scales.numel()
    with torch.cuda.device_of(values):
        dequantize[triton.cdiv(num_groups, BLOCK),](
            values, scales, weight, num_groups, GROUP=GROUP, ZERO=-INT4_MIN, BLOCK=BLOCK
        )
    return weight


@triton.jit
def dequantize(
    values: tl.tensor,  # (num_groups, GROUP / 2) uint8
    scales: tl.tensor,  # (num_groups,)
    weight: tl.tensor,  # (num_groups, GROUP)
    num_groups: tl.tensor,
    GROUP: tl.constexpr,
    ZERO: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Each byte has two values of a group, which are adjacent in the weight."""
    group = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_valid = group < num_groups
    scale = tl.load(scales + group, mask=is_valid, other=0).to(tl.float32)[:, None]
    i = group[:, None] * (GROUP // 2) + tl.arange(0, GROUP // 2)[None]
    pair = tl.load(values + i, mask=is_valid[:, None], other=0).to(tl.int32)
    low = ((pair & 15) - ZERO).to(tl.float32) * scale
    high = ((pair >> 4) - ZERO).to(tl.float32) * scale
    j = group[:, None] * GROUP + tl.arange(0, GROUP)[None]
    tl.store(weight + j, tl.interleave(low, high).to(weight.dtype.element_ty), mask=is_valid[:, None])
