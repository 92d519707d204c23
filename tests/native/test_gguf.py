"""The blocks of GGUF tensors keep their values in panels, and products use them, at each level."""

import gguf
import numpy as np
import pytest
import torch
from torch import Tensor

from inference.native.cpu_levels import Level
from inference.native.packed_matrix import PackedMatrix
from inference.native.structs import GGUF_DTYPES, NativeDtype

EACH_FORMAT = pytest.mark.parametrize("dtype", GGUF_DTYPES, ids=lambda dtype: dtype.name)
OUTPUTS, INPUTS = 70, 1536
# float16 scales and minima in a block, and where they begin, from its end; other blocks begin with one.
NUM_SCALES = dict.fromkeys(
    (NativeDtype.Q4_1, NativeDtype.Q5_1, NativeDtype.Q2_K, NativeDtype.Q4_K, NativeDtype.Q5_K), 2
)
SCALES_AT = {NativeDtype.Q2_K: -4, NativeDtype.Q3_K: -2, NativeDtype.Q6_K: -2}
ROWS = (1, 2, 3, 4, 5, 9, 70)


def blocks_of(dtype: NativeDtype, outputs: int = OUTPUTS, inputs: int = INPUTS) -> tuple[Tensor, Tensor]:
    """Random blocks (outputs, bytes of a row) with finite scales, and their values by gguf-py."""
    ggml_type = gguf.GGMLQuantizationType[dtype.name]
    values, width = gguf.GGML_QUANT_SIZES[ggml_type]
    random = np.random.default_rng(7)
    blocks = random.integers(0, 256, (outputs, inputs // values, width), dtype=np.uint8)
    first = width + SCALES_AT.get(dtype, -width)
    if dtype is NativeDtype.MXFP4:
        scales = random.integers(112, 128, (outputs, inputs // values, 1), dtype=np.uint8)
    else:
        shape = (outputs, inputs // values, NUM_SCALES.get(dtype, 1))
        scales = random.normal(0, 0.01, shape).astype(np.float16).view(np.uint8)
    blocks[:, :, first : first + scales.shape[-1]] = scales
    blocks = blocks.reshape(outputs, -1)
    return torch.from_numpy(blocks), torch.from_numpy(gguf.dequantize(blocks, ggml_type).copy())


def pack(dtype: NativeDtype) -> tuple[PackedMatrix, Tensor]:
    blocks, values = blocks_of(dtype)
    return PackedMatrix.pack_gguf(blocks, torch.arange(OUTPUTS), INPUTS, dtype), values


@EACH_FORMAT
def test_values_are_those_of_gguf_py(level: Level, dtype: NativeDtype) -> None:
    matrix, values = pack(dtype)
    assert torch.equal(matrix.unpack(), values)
    assert torch.equal(matrix.rows(torch.tensor([3, 69])), values[[3, 69]])


def test_mxfp4_has_every_power_of_two(level: Level) -> None:
    blocks = np.full((255, 17), 0x21, dtype=np.uint8)
    blocks[:, 0] = np.arange(255)  # the last one is no number
    matrix = PackedMatrix.pack_gguf(torch.from_numpy(blocks), torch.arange(255), 32, NativeDtype.MXFP4)
    values = gguf.dequantize(blocks, gguf.GGMLQuantizationType.MXFP4)
    assert torch.equal(matrix.unpack(), torch.from_numpy(values.copy()))


@EACH_FORMAT
def test_outputs_are_rows_in_the_given_order(dtype: NativeDtype) -> None:
    blocks, values = blocks_of(dtype)
    order = torch.randperm(OUTPUTS, generator=torch.Generator().manual_seed(1))
    assert torch.equal(PackedMatrix.pack_gguf(blocks, order, INPUTS, dtype).unpack(), values[order])


@EACH_FORMAT
def test_products_round_only_the_inputs(level: Level, dtype: NativeDtype) -> None:
    matrix, values = pack(dtype)
    x = torch.randn(max(ROWS), INPUTS, generator=torch.Generator().manual_seed(2))
    groups = x.view(len(x), -1, 32)
    scale = groups.abs().amax(-1, keepdim=True) / 127
    right = ((groups / scale).round() * scale).view_as(x).double() @ values.double().T
    together = matrix.linear(x)
    assert (together - right).norm() < 1e-6 * right.norm()
    for rows in ROWS:
        assert torch.equal(matrix.linear(x[:rows]), together[:rows])


@EACH_FORMAT
def test_a_matrix_takes_the_bytes_of_its_blocks(dtype: NativeDtype) -> None:
    blocks, _ = blocks_of(dtype, outputs=64)
    assert PackedMatrix.pack_gguf(blocks, torch.arange(64), INPUTS, dtype).nbytes == blocks.nbytes
