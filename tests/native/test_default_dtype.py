"""Native code gets float32 where it writes float32, whatever torch's default dtype is.

A model's own code may set it, and a buffer of half the size would be written beyond its end.
"""

from collections.abc import Iterator

import pytest
import torch

from inference.native import low_rank
from inference.native.packed_matrix import PackedMatrix
from inference.native.structs import NativeDtype


@pytest.fixture(autouse=True)
def default_dtype() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    yield
    torch.set_default_dtype(before)


def test_rows_of_a_packed_matrix_are_float32() -> None:
    weight = torch.randn(48, 64, dtype=torch.float32)
    matrix = PackedMatrix.pack(weight, NativeDtype.F32)
    rows = matrix.rows(torch.tensor([5, 47]))
    assert rows.dtype == torch.float32
    assert torch.equal(rows, weight[[5, 47]])


def test_a_matrix_is_unpacked_to_another_dtype() -> None:
    weight = torch.randn(48, 64, dtype=torch.float32)
    unpacked = PackedMatrix.pack(weight, NativeDtype.F32).unpack(torch.float64)
    assert torch.equal(unpacked, weight.double())


def test_low_rank_outputs_are_float32() -> None:
    x, a = torch.randn(3, 64), torch.randn(4, 64)
    projected = low_rank.project(x, a)
    assert projected.dtype == torch.float32
    assert torch.allclose(projected, x.float() @ a.float().T, atol=1e-3)
