"""Dequantizes weights on a torch device: by a Triton kernel where it was verified, else by torch."""

import logging
from functools import cache
from types import ModuleType

import torch
from torch import Tensor

from inference.errors import named_error
from inference.model.quantization.words import WORDS, integers_of, pack_words

log = logging.getLogger(__name__)

OUTPUTS, INPUTS, ROWS = 24, 3 * WORDS + 8, 40  # of the product by which the kernels are verified
MAX_ERROR = {torch.float32: 1e-4, torch.bfloat16: 2e-2, torch.float16: 2e-2}  # × the largest value


def unpack(values: Tensor, scales: Tensor, inputs: int, bits: int, dtype: torch.dtype) -> Tensor:
    """The dequantized weight (outputs, inputs).

    values  words (outputs, words) of integers with so many bits
    scales  (outputs, 1), or (outputs, groups) of WORDS inputs each
    """
    kernels = triton_kernels(values.device, dtype)
    if kernels:
        weight: Tensor = kernels.unpack(values, scales, inputs, bits, dtype)
        return weight
    return unpack_by_torch(values, scales, inputs, bits, dtype)


def unpack_by_torch(values: Tensor, scales: Tensor, inputs: int, bits: int, dtype: torch.dtype) -> Tensor:
    factors = (
        scales.float().repeat_interleave(WORDS, 1)[:, :inputs] if scales.shape[1] > 1 else scales.float()
    )
    return (integers_of(values, bits, inputs) * factors).to(dtype)


@cache
def triton_kernels(device: torch.device, dtype: torch.dtype) -> ModuleType | None:
    """triton_matmul.py if its kernels compile for the device and compute what torch does; else None."""
    if device.type != "cuda":
        return None
    try:
        from inference.model.quantization import triton_matmul

        reason = (
            "" if all(is_right(triton_matmul, device, dtype, bits) for bits in (4, 8)) else "wrong values"
        )
    except Exception as raised:  # third-party code: any exception rejects the kernels
        reason = named_error(raised)
    if reason:
        log.info("quantized weights on %s: Triton's kernels are not used: %s", device, reason)
    return None if reason else triton_matmul


@torch.no_grad()
def is_right(kernels: ModuleType, device: torch.device, dtype: torch.dtype, bits: int) -> bool:
    """Whether kernels and torch agree on a small weight: unpacked, and times one row and several."""
    generator = torch.Generator().manual_seed(bits)
    integers = torch.randint(-(1 << (bits - 1)), 1 << (bits - 1), (OUTPUTS, INPUTS), generator=generator)
    num_scales = -(-INPUTS // WORDS) if bits == 4 else 1
    scales = torch.rand(OUTPUTS, num_scales, generator=generator) + 0.5
    values, scales = pack_words(integers, bits).to(device), scales.to(device)
    scales = scales.to(torch.bfloat16) if bits == 4 else scales
    weight = unpack_by_torch(values, scales, INPUTS, bits, dtype)
    x = torch.randn(ROWS, INPUTS, generator=generator).to(device, dtype)
    expected = x.float() @ weight.float().T
    limit = MAX_ERROR[dtype] * expected.abs().max()
    products = (kernels.multiply(rows, values, scales, None, bits) for rows in (x[:1], x))
    return torch.equal(kernels.unpack(values, scales, INPUTS, bits, dtype), weight) and all(
        bool((product.float() - expected[: len(product)]).abs().max() <= limit) for product in products
    )
