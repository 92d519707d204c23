"""Packed bytes have the layout that matrix.h describes, at each level and for any layout of the source."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

from inference.native.cpu_levels import Level
from inference.native.packed_matrix import GROUP, PANEL, PackedMatrix
from inference.native.structs import FLOAT_SOURCES, NativeDtype

SHAPES = ((16, 32), (48, 96), (1, 1), (37, 70), (100, 33), (1100, 200))  # outputs, inputs
QUAD = 4
HALF = 0.5 + 1e-4  # either of two equally near integers
CANDIDATES = (
    *(-8, -7.2, -7.4, -7.6, -7.8, -8.2, -8.4, -8.6, -8.8, -9, -9.3, -9.6, -10, -10.5, 7, 7.3, 7.6, 8, 8.5),
)


def weight_of(outputs: int, inputs: int) -> Tensor:
    weight = torch.randn(outputs, inputs, generator=torch.Generator().manual_seed(outputs * inputs))
    weight[:, ::7] = 0
    weight[outputs // 2] = 0
    return weight


def padded(weight: Tensor) -> Tensor:
    outputs, inputs = weight.shape
    return pad(weight, (0, -inputs % GROUP, 0, -outputs % PANEL))


def in_panels(values: Tensor, num_adjacent: int) -> bytes:
    """Values (outputs, inputs) in panels in which `num_adjacent` inputs of an output are adjacent."""
    outputs, inputs = values.shape
    panels = values.reshape(outputs // PANEL, PANEL, inputs // num_adjacent, num_adjacent).transpose(1, 2)
    return panels.contiguous().view(torch.uint8).numpy().tobytes()


def out_of_panels(panels: Tensor, outputs: int, num_adjacent: int) -> Tensor:
    """The inverse of `in_panels`: (outputs, inputs)."""
    return panels.view(outputs // PANEL, -1, PANEL, num_adjacent).transpose(1, 2).reshape(outputs, -1)


def bytes_of(memory: Tensor) -> bytes:
    return memory.numpy().tobytes()


def in_groups(weight: Tensor) -> Tensor:
    """The padded weight as (panels, groups, PANEL, GROUP)."""
    padded_weight = padded(weight)
    return padded_weight.view(padded_weight.shape[0] // PANEL, PANEL, -1, GROUP).transpose(1, 2)


def scales_of(groups: Tensor) -> Tensor:
    """For each group (…, GROUP), the scale with the least error among those that the candidates give."""
    largest = groups.gather(-1, groups.abs().argmax(-1, keepdim=True))
    inverse_scales = torch.tensor(CANDIDATES).view(-1, 1, 1, 1, 1) / torch.where(
        largest == 0, torch.inf, largest
    )
    integers = (groups * inverse_scales).round().clamp(-8, 7)
    squares = integers.square().sum(-1)
    fitted = (integers * groups).sum(-1) / torch.where(squares == 0, torch.inf, squares)
    scales = fitted.bfloat16().float()
    errors = (integers * scales[..., None] - groups).square().sum(-1)
    return scales.gather(0, errors.argmin(0)[None])[0]


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16))
def test_floats_are_stored_unchanged(level: Level, dtype: torch.dtype) -> None:
    for shape in SHAPES:
        weight = weight_of(*shape).to(dtype)
        padded_weight = padded(weight.float())
        assert bytes_of(PackedMatrix.pack(weight, NativeDtype.F32).values) == in_panels(padded_weight, 1)
        assert bytes_of(PackedMatrix.pack(weight, NativeDtype.BF16).values) == in_panels(
            padded_weight.bfloat16(), 2
        )
        assert bytes_of(PackedMatrix.pack(weight, NativeDtype.F16).values) == in_panels(
            padded_weight.half(), 1
        )


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_int8_is_scaled_by_the_largest_weight_of_an_output(level: Level, dtype: torch.dtype) -> None:
    for shape in SHAPES:
        weight = weight_of(*shape).to(dtype)
        padded_weight = padded(weight.float())
        scales = padded_weight.abs().amax(1) / 127
        matrix = PackedMatrix.pack(weight, NativeDtype.INT8)
        assert bytes_of(matrix.scales) == bytes_of(scales.view(torch.uint8))
        integers = out_of_panels(matrix.values, padded_weight.shape[0], QUAD).float() - 128
        exact = padded_weight / torch.where(scales == 0, torch.inf, scales)[:, None]
        assert (integers - exact).abs().max() < HALF


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_int4_uses_the_best_scale_of_each_group(level: Level, dtype: torch.dtype) -> None:
    for shape in SHAPES:
        weight = weight_of(*shape).to(dtype)
        groups = in_groups(weight.float())
        matrix = PackedMatrix.pack(weight, NativeDtype.INT4)
        nibbles = matrix.values.view(*groups.shape[:2], GROUP // 2 // QUAD, PANEL, QUAD).transpose(2, 3)
        integers = torch.stack((nibbles & 15, nibbles >> 4), 3).view(groups.shape).float() - 8
        scales = matrix.scales.view(torch.bfloat16).view(groups.shape[:-1]).float()
        right = scales_of(groups)
        assert (scales == right).float().mean() > 0.99  # two candidates may differ by rounding only
        values = (integers * scales[..., None]).transpose(1, 2).reshape(padded(weight).shape)
        assert torch.equal(matrix.unpack(), values[: shape[0], : shape[1]])


@pytest.mark.parametrize("kind", FLOAT_SOURCES, ids=lambda kind: kind.name)
def test_strided_and_transposed_sources_are_packed_alike(kind: NativeDtype) -> None:
    weight = weight_of(100, 130).bfloat16()
    right = PackedMatrix.pack(weight, kind)
    among = torch.ones(100, 200, dtype=torch.bfloat16)
    among[:, 3:133] = weight
    for source in (among[:, 3:133], weight.T.contiguous().T):
        matrix = PackedMatrix.pack(source, kind)
        assert torch.equal(matrix.values, right.values) and torch.equal(matrix.scales, right.scales)


@pytest.mark.parametrize("kind", FLOAT_SOURCES, ids=lambda kind: kind.name)
def test_unpack_equals_looking_up_every_row(level: Level, kind: NativeDtype) -> None:
    for shape in SHAPES:
        matrix = PackedMatrix.pack(weight_of(*shape), kind)
        looked_up = matrix.rows(torch.arange(shape[0]))
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            assert torch.equal(matrix.unpack(dtype), looked_up.to(dtype))
