"""Inside `Dequantized` torch computes with the values of native matrices; large ones are unpacked by rows."""

import pytest
import torch
from torch.nn import functional

from inference.model.quantization import dequantized
from inference.model.quantization.dequantized import Dequantized
from inference.model.quantization.packed_tensor import PackedWeight
from inference.native.packed_matrix import PACKED_AT_ONCE, PANEL, PackedMatrix
from inference.native.structs import NativeDtype

OUTPUTS, INPUTS = 2 * PACKED_AT_ONCE * PANEL + 5, 8  # three ranges of rows; the last one is no whole panel


@pytest.mark.parametrize("large", [False, True])
@torch.inference_mode()
def test_products_and_rows_are_those_of_the_unpacked_weight(
    monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    monkeypatch.setattr(dequantized, "LARGE", 0 if large else OUTPUTS * INPUTS)
    matrix = PackedMatrix.pack(torch.randn(OUTPUTS, INPUTS), NativeDtype.INT8)
    weight = PackedWeight(matrix, (OUTPUTS, INPUTS), torch.float32, None, False)
    values = matrix.unpack()
    x, bias, ids = torch.randn(2, INPUTS), torch.randn(OUTPUTS), torch.tensor([[3, OUTPUTS - 1], [0, 1024]])
    unpack, num_unpacked = PackedMatrix.unpack, []
    monkeypatch.setattr(PackedMatrix, "unpack", lambda *args: num_unpacked.append(OUTPUTS) or unpack(*args))
    with Dequantized():
        torch.testing.assert_close(functional.linear(x, weight, bias), functional.linear(x, values, bias))
        assert torch.equal(functional.embedding(ids, weight), values[ids])
    assert len(num_unpacked) == (0 if large else 2) and weight.num_unpacked == 2
