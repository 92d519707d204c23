"""Packed bytes are those that matrix.h describes, by each level and from whatever rows."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

from inference.native.levels import Level
from inference.native.matrix import GROUP, PANEL, Matrix
from inference.native.structs import Kind

SHAPES = ((16, 32), (48, 96), (1, 1), (37, 70), (100, 33), (1100, 200))  # outputs, inputs
QUAD = 4
HALF = 0.5 + 1e-4  # of two integers as near, either
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


def in_panels(values: Tensor, beside: int) -> bytes:
    """Values (outputs, inputs), in panels where so many inputs of an output stand beside each other."""
    outputs, inputs = values.shape
    panels = values.reshape(outputs // PANEL, PANEL, inputs // beside, beside).transpose(1, 2)
    return panels.contiguous().view(torch.uint8).numpy().tobytes()


def out_of_panels(packed: Tensor, outputs: int, beside: int) -> Tensor:
    """(outputs, inputs), as they stood before `in_panels`."""
    return packed.view(outputs // PANEL, -1, PANEL, beside).transpose(1, 2).reshape(outputs, -1)


def bytes_of(memory: Tensor) -> bytes:
    return memory.numpy().tobytes()


def in_groups(weight: Tensor) -> Tensor:
    """(panels, groups, PANEL, GROUP)"""
    whole = padded(weight)
    return whole.view(whole.shape[0] // PANEL, PANEL, -1, GROUP).transpose(1, 2)


def scales_of(groups: Tensor) -> Tensor:
    """The scale of each group (…, GROUP) with the least error, of integers rounded as each candidate says."""
    largest = groups.gather(-1, groups.abs().argmax(-1, keepdim=True))
    tried = torch.tensor(CANDIDATES).view(-1, 1, 1, 1, 1) / torch.where(largest == 0, torch.inf, largest)
    integers = (groups * tried).round().clamp(-8, 7)
    squares = integers.square().sum(-1)
    fitted = (integers * groups).sum(-1) / torch.where(squares == 0, torch.inf, squares)
    scales = fitted.bfloat16().float()
    errors = (integers * scales[..., None] - groups).square().sum(-1)
    return scales.gather(0, errors.argmin(0)[None])[0]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16))
def test_floats_and_bfloats_stand_as_they_are(
    level: Level, shape: tuple[int, int], dtype: torch.dtype
) -> None:
    weight = weight_of(*shape).to(dtype)
    whole = padded(weight.float())
    assert bytes_of(Matrix.pack(weight, Kind.F32).values) == in_panels(whole, 1)
    assert bytes_of(Matrix.pack(weight, Kind.BF16).values) == in_panels(whole.bfloat16(), 2)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_eight_bits_are_rounded_by_the_largest_of_an_output(
    level: Level, shape: tuple[int, int], dtype: torch.dtype
) -> None:
    weight = weight_of(*shape).to(dtype)
    whole = padded(weight.float())
    scales = whole.abs().amax(1) / 127
    made = Matrix.pack(weight, Kind.INT8)
    assert bytes_of(made.scales) == bytes_of(scales.view(torch.uint8))
    integers = out_of_panels(made.values, whole.shape[0], QUAD).float() - 128
    exact = whole / torch.where(scales == 0, torch.inf, scales)[:, None]
    assert (integers - exact).abs().max() < HALF


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_four_bits_are_as_near_as_the_best_scale_makes_them(
    level: Level, shape: tuple[int, int], dtype: torch.dtype
) -> None:
    weight = weight_of(*shape).to(dtype)
    groups = in_groups(weight.float())
    made = Matrix.pack(weight, Kind.INT4)
    nibbles = made.values.view(*groups.shape[:2], GROUP // 2 // QUAD, PANEL, QUAD).transpose(2, 3)
    integers = torch.stack((nibbles & 15, nibbles >> 4), 3).view(groups.shape).float() - 8
    scales = made.scales.view(torch.bfloat16).view(groups.shape[:-1]).float()
    right = scales_of(groups)
    assert (scales == right).float().mean() > 0.99  # two candidates may be as good but for rounding
    values = (integers * scales[..., None]).transpose(1, 2).reshape(padded(weight).shape)
    assert torch.equal(made.unpack(), values[: shape[0], : shape[1]])


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name)
def test_rows_that_are_apart_or_turned_are_packed_alike(kind: Kind) -> None:
    weight = weight_of(100, 130).bfloat16()
    right = Matrix.pack(weight, kind)
    among = torch.ones(100, 200, dtype=torch.bfloat16)
    among[:, 3:133] = weight
    for given in (among[:, 3:133], weight.T.contiguous().T):
        made = Matrix.pack(given, kind)
        assert torch.equal(made.values, right.values) and torch.equal(made.scales, right.scales)


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name)
@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_unpacked_is_what_rows_are_looked_up_as(
    level: Level, kind: Kind, shape: tuple[int, int]
) -> None:
    made = Matrix.pack(weight_of(*shape), kind)
    looked_up = made.rows(torch.arange(shape[0]))
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert torch.equal(made.unpack(dtype), looked_up.to(dtype))
