"""Keys and values in 8 bits: each head is a row of blocks, 32 integers and their scale, as in ggml's Q8_0.

The C library reads and writes the same form, see kv_block.h. Knows tensors; not who owns a page.
"""

import torch
from torch.nn.functional import pad

BLOCK = 32  # values of a block
SCALE_BYTES = 2  # float16
BLOCK_BYTES = SCALE_BYTES + BLOCK
MAX_INTEGER = 127
MIN_LARGEST = 1e-30  # blocks whose values are all smaller become zeros


def head_bytes(head_dim: int) -> int:
    """Bytes of a head; the last block is padded with zeros."""
    return -(-head_dim // BLOCK) * BLOCK_BYTES


def quantize(states: torch.Tensor) -> torch.Tensor:
    """Keys or values (..., D) as blocks (..., head_bytes(D)) of uint8; the largest value becomes 127.

    A block with a value that is not finite is read back as NaN.
    """
    values = pad(states.float(), (0, -states.shape[-1] % BLOCK)).unflatten(-1, (-1, BLOCK))
    largest = values.abs().amax(-1, keepdim=True)
    largest = torch.where(largest.isfinite(), largest, torch.nan)
    inverse = torch.where(largest > MIN_LARGEST, MAX_INTEGER / largest, 0)
    integers = (values * inverse).round().nan_to_num(0).to(torch.int8)
    scales = (largest / MAX_INTEGER).clamp(max=torch.finfo(torch.float16).max).half()
    return torch.cat([scales.view(torch.uint8), integers.view(torch.uint8)], -1).flatten(-2)


def dequantize(blocks: torch.Tensor, head_dim: int, dtype: torch.dtype) -> torch.Tensor:
    """The keys or values (..., head_dim) of blocks (..., head_bytes(head_dim)), in `dtype`."""
    scale_bytes, integers = blocks.unflatten(-1, (-1, BLOCK_BYTES)).split((SCALE_BYTES, BLOCK), -1)
    scales = scale_bytes.contiguous().view(torch.float16).float()
    return (integers.view(torch.int8) * scales).flatten(-2)[..., :head_dim].to(dtype)


def store_quantized(
    key: torch.Tensor,
    value: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    """A StoreKernel (see kv_pool.py) into pages of blocks."""
    keys.index_copy_(0, slot_mapping, quantize(key))
    values.index_copy_(0, slot_mapping, quantize(value))
