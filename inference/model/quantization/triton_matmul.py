"""Products with quantized weights on a GPU, in Triton: weights are widened in registers.

A step of few rows reads all weights and computes little, so that its time is that of reading them in 4 or 8
bits. Weights are words as words.py packs them. Knows tensors; nothing of models.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from inference.model.quantization.words import WORDS

UNPACKED_BLOCKS = 16  # of a program
MAX_ROWS = 64  # with more rows, torch's product with unpacked weights is as fast
MAX_TILE_ROWS = 64
SHARED_BYTES = 90 << 10  # of a program: less than any GPU since Ampere has
MAGIC = tl.constexpr(0x4B000000)  # the bits of 2²³, a float32 whose lowest bits count integers


class ProductTile(NamedTuple):
    """What one program computes: so many rows of x times so many outputs, so many blocks at a time."""

    rows: int
    outputs: int
    blocks: int
    warps: int
    stages: int


def tile_of(rows: int, outputs: int, bits: int, itemsize: int) -> ProductTile:
    """The tile of a product with so many rows of x and outputs of the weight, as measured on an H200.

    itemsize: bytes of a value of x.
    """
    if rows == 1:  # computed without tensor cores
        return ProductTile(1, 4, 8, 4, 1) if bits == 4 else ProductTile(1, 2, 16, 4, 1)
    tile_rows = min(MAX_TILE_ROWS, max(16, triton.next_power_of_2(rows)))
    tile_outputs = 64 if outputs >= 1 << 13 else 32
    stage_bytes = WORDS * (tile_rows * (32 // bits) * itemsize + 4 * tile_outputs)
    return ProductTile(tile_rows, tile_outputs, 1, 4, max(1, min(4, SHARED_BYTES // stage_bytes)))


def multiply(
    x: torch.Tensor,
    values: torch.Tensor,
    scales: torch.Tensor,
    bias: torch.Tensor | None,
    bits: int,
    tile: ProductTile | None = None,
) -> torch.Tensor:
    """x (M, inputs) times a weight, plus the bias: (M, outputs), in the dtype of x. M is at most MAX_ROWS.

    values  int32 (outputs, words)
    scales  (outputs, groups) if bits is 4, else (outputs, 1)
    """
    M, inputs = x.shape
    outputs = len(values)
    tile = tile or tile_of(M, outputs, bits, x.itemsize)
    result = x.new_empty(M, outputs)
    kernel = sum_products if tile.rows == 1 else multiply_tiles
    with torch.cuda.device_of(x):
        kernel[triton.cdiv(outputs, tile.outputs), triton.cdiv(M, tile.rows)](
            x,
            values,
            scales,
            scales if bias is None else bias,
            result,
            M,
            outputs,
            inputs,
            x.stride(0),
            values.shape[1],
            scales.shape[1],
            ROWS=tile.rows,
            OUTPUTS=tile.outputs,
            BLOCKS=tile.blocks,
            BITS=bits,
            WORDS=WORDS,
            HAS_BIAS=bias is not None,
            num_warps=tile.warps,
            num_stages=tile.stages,
        )
    return result


def unpack(
    values: torch.Tensor, scales: torch.Tensor, inputs: int, bits: int, dtype: torch.dtype
) -> torch.Tensor:
    """The dequantized weight (outputs, inputs). values, scales: as for `multiply`."""
    outputs, words = values.shape
    weight = torch.empty(outputs, inputs, dtype=dtype, device=values.device)
    num_blocks = values.numel() // WORDS
    with torch.cuda.device_of(values):
        unpack_blocks[triton.cdiv(num_blocks, UNPACKED_BLOCKS),](
            values,
            scales,
            weight,
            num_blocks,
            inputs,
            words // WORDS,
            scales.shape[1],
            BLOCKS=UNPACKED_BLOCKS,
            BITS=bits,
            WORDS=WORDS,
        )
    return weight


@triton.jit
def integers_of(word: tl.tensor, field: tl.constexpr, BITS: tl.constexpr) -> tl.tensor:
    """The signed integers in a field of each word, as float32: without a conversion, which is slow."""
    LARGEST: tl.constexpr = (1 << BITS) - 1
    ZERO: tl.constexpr = 8388608.0 + (1 << (BITS - 1))
    bits = ((word >> (field * BITS)) & LARGEST) | MAGIC
    return bits.to(tl.float32, bitcast=True) - ZERO


@triton.jit(do_not_specialize=["M"])
def sum_products(
    x: tl.tensor,  # (M, inputs), strides x_row, 1
    values: tl.tensor,  # (outputs, words)
    scales: tl.tensor,  # (outputs, scales_row)
    bias: tl.tensor,  # (outputs,)
    result: tl.tensor,  # (M, outputs)
    M: tl.tensor,
    outputs: tl.tensor,
    inputs: tl.tensor,
    x_row: tl.tensor,
    words: tl.tensor,
    scales_row: tl.tensor,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    BLOCKS: tl.constexpr,
    BITS: tl.constexpr,
    WORDS: tl.constexpr,
    HAS_BIAS: tl.constexpr,
) -> None:
    """One row of x times OUTPUTS outputs: products and sums in float32, without tensor cores."""
    FIELDS: tl.constexpr = 32 // BITS
    n = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    is_output = n < outputs
    i = tl.arange(0, WORDS)[None, :]
    output = values + n.to(tl.int64)[:, None, None] * words
    row = x + tl.program_id(1) * x_row
    sums = tl.zeros((OUTPUTS, BLOCKS, WORDS), tl.float32)
    for first in range(0, words // WORDS, BLOCKS):
        block = (first + tl.arange(0, BLOCKS))[:, None]
        place = block * WORDS + i
        word = tl.load(
            output + place[None, :, :], mask=is_output[:, None, None] & (place < words)[None], other=0
        )
        for field in tl.static_range(FIELDS):
            group = block * FIELDS + field
            k = group * WORDS + i
            factor = tl.load(row + k, mask=k < inputs, other=0).to(tl.float32)[None, :, :]
            product = integers_of(word, field, BITS) * factor
            if BITS == 4:
                is_group = is_output[:, None] & (group * WORDS < inputs).trans(1, 0)
                scale = tl.load(scales + n[:, None] * scales_row + group.trans(1, 0), mask=is_group, other=0)
                product *= scale.to(tl.float32)[:, :, None]
            sums += product
    total = tl.sum(tl.sum(sums, 2), 1)
    if BITS != 4:
        total *= tl.load(scales + n, mask=is_output, other=0)
    if HAS_BIAS:
        total += tl.load(bias + n, mask=is_output, other=0).to(tl.float32)
    tl.store(result + tl.program_id(1) * outputs + n, total.to(result.dtype.element_ty), mask=is_output)


@triton.jit(do_not_specialize=["M"])
def multiply_tiles(
    x: tl.tensor,  # (M, inputs), strides x_row, 1
    values: tl.tensor,  # (outputs, words)
    scales: tl.tensor,  # (outputs, scales_row)
    bias: tl.tensor,  # (outputs,)
    result: tl.tensor,  # (M, outputs)
    M: tl.tensor,
    outputs: tl.tensor,
    inputs: tl.tensor,
    x_row: tl.tensor,
    words: tl.tensor,
    scales_row: tl.tensor,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    BLOCKS: tl.constexpr,
    BITS: tl.constexpr,
    WORDS: tl.constexpr,
    HAS_BIAS: tl.constexpr,
) -> None:
    """ROWS rows of x times OUTPUTS outputs, on tensor cores: weights are rounded to the dtype of x."""
    FIELDS: tl.constexpr = 32 // BITS
    n = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    m = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    is_output, is_row = n < outputs, m < M
    i = tl.arange(0, WORDS)
    place = values + n.to(tl.int64)[None, :] * words + i[:, None]
    rows = x + m[:, None] * x_row
    sums = tl.zeros((ROWS, OUTPUTS), tl.float32)
    for block in range(words // WORDS):
        word = tl.load(place + block * WORDS, mask=is_output[None, :], other=0)
        for field in tl.static_range(FIELDS):
            group = block * FIELDS + field
            k = (group * WORDS + i)[None, :]
            factor = tl.load(rows + k, mask=is_row[:, None] & (k < inputs), other=0)
            weight = integers_of(word, field, BITS)
            if BITS == 4:
                is_group = is_output & (group * WORDS < inputs)
                scale = tl.load(scales + n * scales_row + group, mask=is_group, other=0).to(tl.float32)
                weight *= scale[None, :]
            sums = tl.dot(factor, weight.to(x.dtype.element_ty), sums, input_precision="ieee")
    if BITS != 4:
        sums *= tl.load(scales + n, mask=is_output, other=0)[None, :]
    if HAS_BIAS:
        sums += tl.load(bias + n, mask=is_output, other=0).to(tl.float32)[None, :]
    tl.store(
        result + m[:, None] * outputs + n[None, :],
        sums.to(result.dtype.element_ty),
        mask=is_row[:, None] & is_output[None, :],
    )


@triton.jit
def unpack_blocks(
    values: tl.tensor,  # (num_blocks, WORDS)
    scales: tl.tensor,  # (outputs, scales_row)
    weight: tl.tensor,  # (outputs, inputs)
    num_blocks: tl.tensor,
    inputs: tl.tensor,
    blocks_per_row: tl.tensor,
    scales_row: tl.tensor,
    BLOCKS: tl.constexpr,
    BITS: tl.constexpr,
    WORDS: tl.constexpr,
) -> None:
    """The integers of BLOCKS blocks of words, times their scales."""
    FIELDS: tl.constexpr = 32 // BITS
    number = tl.program_id(0).to(tl.int64) * BLOCKS + tl.arange(0, BLOCKS)
    n, block = number // blocks_per_row, number % blocks_per_row
    i = tl.arange(0, WORDS)[None, :]
    word = tl.load(values + number[:, None] * WORDS + i, mask=(number < num_blocks)[:, None], other=0)
    for field in tl.static_range(FIELDS):
        group = block * FIELDS + field
        is_group = (number < num_blocks) & (group * WORDS < inputs)
        scale = tl.load(scales + n * scales_row + (group if BITS == 4 else 0), mask=is_group, other=0)
        value = integers_of(word, field, BITS) * scale.to(tl.float32)[:, None]
        k = group[:, None] * WORDS + i
        to = weight + n[:, None] * inputs + k
        tl.store(to, value.to(weight.dtype.element_ty), mask=is_group[:, None] & (k < inputs))
