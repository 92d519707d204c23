"""The C library's low-rank products: those of float32, rounded once; no row depends on the others."""

import pytest
import torch
from torch import Tensor

from inference.native import low_rank
from inference.native.cpu_levels import Level

SHAPES = ((32, 16, 64), (100, 7, 81), (48, 1, 5))  # inputs, rank, outputs


def random_values(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).bfloat16()


def compute(x: Tensor, a: Tensor, b_t: Tensor, output: Tensor) -> Tensor:
    return low_rank.add(low_rank.project(x, a), b_t, output)


@pytest.mark.parametrize("num_rows", (1, 4, 13))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_products_are_those_of_float32(level: Level, shape: tuple[int, int, int], num_rows: int) -> None:
    inputs, rank, outputs = shape
    x, a, b_t = random_values(num_rows, inputs), random_values(rank, inputs), random_values(rank, outputs)
    output = random_values(num_rows, outputs)
    expected = output.double() + x.double() @ a.double().T @ b_t.double()
    changed = compute(x, a, b_t, output)
    assert changed is output
    error = (changed.double() - expected).abs()
    assert bool((error <= expected.abs() / 256 + 1e-4).all()), "more than half a unit of bfloat16"


def test_rows_of_wider_tensors_are_changed_where_they_are(level: Level) -> None:
    x, output, a, b_t = (random_values(*shape) for shape in ((5, 80), (5, 90), (4, 40), (4, 50)))
    expected = compute(x[:, 20:60].contiguous(), a, b_t, output[:, 30:80].contiguous())
    before = output.clone()
    compute(x[:, 20:60], a, b_t, output[:, 30:80])
    assert torch.equal(output[:, 30:80], expected)
    assert torch.equal(output[:, :30], before[:, :30])
    assert torch.equal(output[:, 80:], before[:, 80:])


def test_a_row_has_the_same_bits_alone_and_among_others(level: Level) -> None:
    x, output, a, b_t = (random_values(*shape) for shape in ((9, 75), (9, 130), (6, 75), (6, 130)))
    alone = [compute(x[[row]], a, b_t, output[[row]]) for row in range(9)]
    assert torch.equal(compute(x, a, b_t, output.clone()), torch.cat(alone))


def test_only_rows_of_bfloat16_on_the_cpu_are_supported(level: Level) -> None:
    rows = random_values(2, 8)
    assert low_rank.supports(rows, rows)
    assert not low_rank.supports(rows.float(), rows)
    assert not low_rank.supports(rows, rows.half())
    assert not low_rank.supports(rows, random_values(8, 2).T)
    assert not low_rank.supports(rows.to("meta"), rows.to("meta"))
