"""Matrices are packed, read back, and multiplied with, by each level that this machine can run."""

import pytest
import torch
from torch import Tensor

from inference.native import matrix as matrices
from inference.native.levels import Level
from inference.native.matrix import Matrix
from inference.native.structs import Kind

LONG = 4200  # inputs: in each kind more than are multiplied with all rows before the next ones
SHAPES = ((1, 1), (16, 32), (37, 70), (48, 96), (100, 33), (151, 1000), (70, LONG))  # outputs, inputs
ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 31, 70)
KINDS = pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name)
# Largest error of a weight, as part of the largest of its output (INT8), or of its group (INT4).
ROUNDING = {Kind.F32: 0, Kind.BF16: 2**-8, Kind.INT8: 0.51 / 127, Kind.INT4: 0.15}
# Of a product: what rounding the inputs does, as part of the norm of the outcome.
PRODUCT = {Kind.F32: 1e-6, Kind.BF16: 3e-3, Kind.INT8: 1e-2, Kind.INT4: 1e-2}


def weight_of(outputs: int, inputs: int) -> Tensor:
    return torch.randn(outputs, inputs, generator=torch.Generator().manual_seed(outputs * inputs))


def off(made: Tensor, right: Tensor) -> float:
    return ((made.double() - right.double()).norm() / right.double().norm()).item()


@KINDS
@pytest.mark.parametrize("shape", SHAPES)
def test_a_packed_weight_is_read_back_as_near_as_its_kind_allows(
    level: Level, kind: Kind, shape: tuple[int, int]
) -> None:
    weight = weight_of(*shape)
    error = (Matrix.pack(weight, kind).unpack() - weight).abs() / weight.abs().amax(1, keepdim=True)
    assert error.max() <= ROUNDING[kind]


@KINDS
@pytest.mark.parametrize("shape", SHAPES)
def test_products_are_those_of_the_weight_that_is_read_back(
    level: Level, kind: Kind, shape: tuple[int, int]
) -> None:
    weight, bias = weight_of(*shape), weight_of(1, shape[0])[0]
    matrix = Matrix.pack(weight, kind, bias)
    x = weight_of(max(ROWS), shape[1])
    right = x.double() @ matrix.unpack().double().T + bias.double()
    for rows in ROWS:
        assert off(matrix.linear(x[:rows]), right[:rows]) < PRODUCT[kind], rows


@KINDS
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_a_row_is_computed_alike_alone_and_among_others(level: Level, kind: Kind, dtype: torch.dtype) -> None:
    matrix = Matrix.pack(weight_of(200, LONG), kind, weight_of(1, 200)[0])
    x = weight_of(260, LONG).to(dtype)
    together = matrix.linear(x)
    for first, end in ((0, 1), (63, 64), (5, 10), (90, 131), (0, 97), (259, 260)):
        assert torch.equal(matrix.linear(x[first:end]), together[first:end])


@KINDS
def test_bfloat16_in_gives_bfloat16_out_and_float16_float16(level: Level, kind: Kind) -> None:
    matrix = Matrix.pack(weight_of(48, 64), kind)
    x = weight_of(3, 64).to(torch.bfloat16)
    whole = matrix.linear(x.float())
    assert torch.equal(matrix.linear(x), whole.to(torch.bfloat16))
    half = matrix.linear(x.to(torch.float16))
    assert half.dtype == torch.float16 and torch.equal(half, whole.to(torch.float16))


def test_levels_differ_by_rounding_alone(level: Level) -> None:
    weight, x = weight_of(64, 256), weight_of(5, 256)
    for kind in (Kind.INT8, Kind.INT4):
        matrix = Matrix.pack(weight, kind)
        groups = x.view(5, -1, 32)
        scale = groups.abs().amax(-1, keepdim=True) / 127
        rounded = ((groups / scale).round() * scale).view(5, 256).double()
        assert off(matrix.linear(x), rounded @ matrix.unpack().double().T) < 1e-6


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16))
@pytest.mark.parametrize("turned", (False, True))
def test_a_weight_of_any_float_and_layout_is_taken(dtype: torch.dtype, turned: bool) -> None:
    weight = weight_of(40, 64).to(dtype)
    given = weight.T.contiguous().T if turned else weight
    assert torch.equal(Matrix.pack(given, Kind.F32).unpack(), weight.float())


def test_leading_dimensions_stay_and_no_rows_are_no_fault() -> None:
    matrix = Matrix.pack(weight_of(20, 32), Kind.F32)
    x = weight_of(6, 32)
    assert torch.equal(matrix.linear(x.view(2, 3, 32)), matrix.linear(x).view(2, 3, 20))
    assert matrix.linear(x[:0]).shape == (0, 20)
    assert torch.equal(matrix.linear(x[:, None].expand(6, 4, 32)[:, 2]), matrix.linear(x))


def test_rows_beyond_what_is_computed_at_once_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, x = Matrix.pack(weight_of(20, 32), Kind.BF16), weight_of(70, 32).bfloat16()
    together = matrix.linear(x)
    monkeypatch.setattr(matrices, "COMPUTED_AT_ONCE", 32)
    assert torch.equal(matrix.linear(x), together)


@KINDS
def test_rows_are_looked_up_by_their_ids(kind: Kind) -> None:
    matrix = Matrix.pack(weight_of(50, 40), kind)
    ids = torch.tensor([[3, 49], [0, 3]])
    assert torch.equal(matrix.rows(ids), matrix.unpack()[ids])
    with pytest.raises(IndexError, match="0 to 50 of a matrix of 50"):
        matrix.rows(torch.tensor([0, 50]))


def test_zeros_stay_zeros() -> None:
    for kind in Kind:
        matrix = Matrix.pack(torch.zeros(20, 64), kind)
        assert not matrix.unpack().any()
        assert not matrix.linear(torch.zeros(3, 64)).any()
        assert not matrix.linear(torch.ones(3, 64)).any()


def test_four_bits_lose_less_than_llama_cpps_plain_ones() -> None:
    weight = weight_of(64, 1024)
    groups = weight.view(64, -1, 32)
    largest = groups.gather(-1, groups.abs().argmax(-1, keepdim=True))
    scale = (largest / -8).half().float()
    plain = ((groups * (-8 / largest) + 8.5).floor().clamp(0, 15) - 8) * scale  # Q4_0, ggml-quants.c
    ours = Matrix.pack(weight, Kind.INT4).unpack()
    assert off(ours, weight) < 0.95 * off(plain.view(64, -1), weight)


def test_a_matrix_says_how_many_bytes_it_takes() -> None:
    sizes = {kind: Matrix.pack(weight_of(32, 64), kind).nbytes for kind in Kind}
    assert sizes == {Kind.F32: 8192, Kind.BF16: 4096, Kind.INT8: 2048 + 128, Kind.INT4: 1024 + 128}
