"""Matrices are packed, read back and multiplied, at each level that this machine can run."""

import pytest
import torch
from torch import Tensor

from inference.native import packed_matrix as matrices
from inference.native.cpu_levels import Level
from inference.native.packed_matrix import PackedMatrix
from inference.native.structs import NativeDtype

LONG = 4200  # inputs: more than one block of inputs in every dtype
SHAPES = ((1, 1), (16, 32), (37, 70), (48, 96), (100, 33), (151, 1000), (70, LONG))  # outputs, inputs
ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 31, 70)
# Largest error of a weight, relative to the largest weight of its output (INT8) or of its group (INT4).
ROUNDING = {
    NativeDtype.F32: 0,
    NativeDtype.BF16: 2**-8,
    NativeDtype.F16: 2**-11,
    NativeDtype.INT8: 0.51 / 127,
    NativeDtype.INT4: 0.15,
}
# Error of a matmul from rounding its inputs, relative to the norm of the result.
PRODUCT = {
    NativeDtype.F32: 1e-6,
    NativeDtype.BF16: 3e-3,
    NativeDtype.F16: 1e-6,
    NativeDtype.INT8: 1e-2,
    NativeDtype.INT4: 1e-2,
}

KINDS = pytest.mark.parametrize("kind", PRODUCT, ids=lambda kind: kind.name)
BFLOAT16_PRODUCTS = "bf16"  # in the flags of levels that have them


def weight_of(outputs: int, inputs: int) -> Tensor:
    return torch.randn(outputs, inputs, generator=torch.Generator().manual_seed(outputs * inputs))


def relative_error(result: Tensor, right: Tensor) -> float:
    return ((result.double() - right.double()).norm() / right.double().norm()).item()


@KINDS
def test_a_packed_weight_is_read_back_as_precisely_as_its_dtype_allows(
    level: Level, kind: NativeDtype
) -> None:
    for shape in SHAPES:
        weight = weight_of(*shape)
        error = (PackedMatrix.pack(weight, kind).unpack() - weight).abs() / weight.abs().amax(1, keepdim=True)
        assert error.max() <= ROUNDING[kind], shape


def test_bfloat16_is_read_back_bit_for_bit(level: Level) -> None:
    for shape in SHAPES:
        weight = weight_of(*shape).bfloat16()
        assert torch.equal(PackedMatrix.pack(weight, NativeDtype.BF16).unpack(torch.bfloat16), weight)


@KINDS
def test_matmuls_use_the_values_that_are_read_back(level: Level, kind: NativeDtype) -> None:
    for shape in SHAPES:
        weight, bias = weight_of(*shape), weight_of(1, shape[0])[0]
        matrix = PackedMatrix.pack(weight, kind, bias)
        x = weight_of(max(ROWS), shape[1])
        right = x.double() @ matrix.unpack().double().T + bias.double()
        for rows in ROWS:
            assert relative_error(matrix.linear(x[:rows]), right[:rows]) < PRODUCT[kind], (shape, rows)


def test_without_products_of_bfloat16_its_inputs_stay_floats(level: Level) -> None:
    matrix, x = PackedMatrix.pack(weight_of(48, 300), NativeDtype.BF16), weight_of(9, 300)
    error = relative_error(matrix.linear(x), x.double() @ matrix.unpack().double().T)
    assert error < 1e-6 or any(BFLOAT16_PRODUCTS in flag for flag in level.flags)


@KINDS
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_a_row_is_computed_identically_alone_and_in_a_batch(
    level: Level, kind: NativeDtype, dtype: torch.dtype
) -> None:
    matrix = PackedMatrix.pack(weight_of(200, LONG), kind, weight_of(1, 200)[0])
    x = weight_of(260, LONG).to(dtype)
    together = matrix.linear(x)
    for first, end in ((0, 1), (63, 64), (5, 10), (90, 131), (0, 97), (259, 260)):
        assert torch.equal(matrix.linear(x[first:end]), together[first:end])


@KINDS
def test_the_output_has_the_dtype_of_the_input(level: Level, kind: NativeDtype) -> None:
    matrix = PackedMatrix.pack(weight_of(48, 64), kind)
    x = weight_of(3, 64).to(torch.bfloat16)
    output = matrix.linear(x.float())
    assert torch.equal(matrix.linear(x), output.to(torch.bfloat16))
    half = matrix.linear(x.to(torch.float16))
    assert half.dtype == torch.float16 and torch.equal(half, output.to(torch.float16))


def test_levels_differ_only_by_rounding(level: Level) -> None:
    weight, x = weight_of(64, 256), weight_of(5, 256)
    for kind in (NativeDtype.INT8, NativeDtype.INT4):
        matrix = PackedMatrix.pack(weight, kind)
        groups = x.view(5, -1, 32)
        scale = groups.abs().amax(-1, keepdim=True) / 127
        rounded = ((groups / scale).round() * scale).view(5, 256).double()
        assert relative_error(matrix.linear(x), rounded @ matrix.unpack().double().T) < 1e-6


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16))
@pytest.mark.parametrize("transposed", (False, True))
def test_weights_of_any_float_dtype_and_layout_are_accepted(dtype: torch.dtype, transposed: bool) -> None:
    weight = weight_of(40, 64).to(dtype)
    source = weight.T.contiguous().T if transposed else weight
    assert torch.equal(PackedMatrix.pack(source, NativeDtype.F32).unpack(), weight.float())


def test_leading_dimensions_are_kept_and_zero_rows_are_allowed() -> None:
    matrix = PackedMatrix.pack(weight_of(20, 32), NativeDtype.F32)
    x = weight_of(6, 32)
    assert torch.equal(matrix.linear(x.view(2, 3, 32)), matrix.linear(x).view(2, 3, 20))
    assert matrix.linear(x[:0]).shape == (0, 20)
    assert torch.equal(matrix.linear(x[:, None].expand(6, 4, 32)[:, 2]), matrix.linear(x))


def test_an_output_is_no_view_as_autograd_cannot_overwrite_views() -> None:
    matrix = PackedMatrix.pack(weight_of(48, 32), NativeDtype.F32)
    assert not matrix.linear(weight_of(6, 32).view(2, 3, 32))._is_view()


def test_more_rows_than_are_computed_at_once_are_computed_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, x = PackedMatrix.pack(weight_of(20, 32), NativeDtype.BF16), weight_of(70, 32).bfloat16()
    together = matrix.linear(x)
    monkeypatch.setattr(matrices, "COMPUTED_AT_ONCE", 32)
    assert torch.equal(matrix.linear(x), together)


@KINDS
def test_rows_are_looked_up_by_their_ids(kind: NativeDtype) -> None:
    matrix = PackedMatrix.pack(weight_of(50, 40), kind)
    ids = torch.tensor([[3, 49], [0, 3]])
    assert torch.equal(matrix.rows(ids), matrix.unpack()[ids])
    with pytest.raises(IndexError, match="0 to 50 are out of range: num_rows=50"):
        matrix.rows(torch.tensor([0, 50]))


def test_zeros_stay_zeros() -> None:
    for kind in PRODUCT:
        matrix = PackedMatrix.pack(torch.zeros(20, 64), kind)
        assert not matrix.unpack().any()
        assert not matrix.linear(torch.zeros(3, 64)).any()
        assert not matrix.linear(torch.ones(3, 64)).any()


def test_int4_loses_less_than_llama_cpps_q4_0() -> None:
    weight = weight_of(64, 1024)
    groups = weight.view(64, -1, 32)
    largest = groups.gather(-1, groups.abs().argmax(-1, keepdim=True))
    scale = (largest / -8).half().float()
    plain = ((groups * (-8 / largest) + 8.5).floor().clamp(0, 15) - 8) * scale  # Q4_0, ggml-quants.c
    ours = PackedMatrix.pack(weight, NativeDtype.INT4).unpack()
    assert relative_error(ours, weight) < 0.95 * relative_error(plain.view(64, -1), weight)


def test_a_matrix_reports_its_bytes() -> None:
    sizes = {kind: PackedMatrix.pack(weight_of(32, 64), kind).nbytes for kind in PRODUCT}
    assert sizes == {
        NativeDtype.F32: 8192,
        NativeDtype.BF16: 4096,
        NativeDtype.F16: 4096,
        NativeDtype.INT8: 2048 + 128,
        NativeDtype.INT4: 1024 + 128,
    }
