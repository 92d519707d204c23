"""The blocks of GGUF tensors keep their values in panels, and products use them, at each level."""

import gguf
import numpy as np
import pytest
import torch
from torch import Tensor

from inference.native.cpu_levels import Level
from inference.native.packed_matrix import PackedMatrix
from inference.native.structs import GGUF_DTYPES, NativeDtype
from tests.native.gguf_blocks import blocks_of

EACH_FORMAT = pytest.mark.parametrize("dtype", GGUF_DTYPES, ids=lambda dtype: dtype.name)
OUTPUTS, INPUTS = 70, 1536
ROWS = (1, 2, 3, 4, 5, 9, 70)


def pack(dtype: NativeDtype) -> tuple[PackedMatrix, Tensor]:
    blocks, values = blocks_of(dtype, OUTPUTS, INPUTS)
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
    blocks, values = blocks_of(dtype, OUTPUTS, INPUTS)
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
    blocks, _ = blocks_of(dtype, 64, INPUTS)
    assert PackedMatrix.pack_gguf(blocks, torch.arange(64), INPUTS, dtype).nbytes == blocks.nbytes
