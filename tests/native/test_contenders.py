"""Native code finds who can win a draw, at each level: the winner is among them, and all that are near."""

import pytest
import torch
from torch import Tensor

from inference.engine import noise
from inference.native import draw
from inference.native.levels import Level

CPU = torch.device("cpu")
GONE = float("-inf")
WIDTHS = (1, 7, 256, 257, 5_000)
DTYPES = pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=("float32", "bfloat16"))


def some(rows: int, width: int, spread: float = 3.0) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(rows * width)) * spread


def every(logits: Tensor) -> Tensor:
    return torch.arange(len(logits))


def streams(count: int, position: int = 0) -> Tensor:
    return noise.keys(range(count), [position] * count, CPU)


def told(found: draw.Contenders) -> list[list[int]]:
    return [ids[:count].tolist() for ids, count in zip(found.ids, found.counts.tolist(), strict=True)]


@DTYPES
@pytest.mark.parametrize("width", WIDTHS)
def test_the_largest_is_the_first_of_those_that_are(level: Level, dtype: torch.dtype, width: int) -> None:
    logits = (some(9, width) * 2).round().to(dtype)  # with ties
    best, ids = draw.largest(logits, every(logits))
    assert torch.equal(best, logits.float().amax(-1))
    assert ids.tolist() == [row.index(max(row)) for row in logits.tolist()]


@DTYPES
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("heat", (0.3, 1.0, 2.5))
def test_the_winner_is_among_few_contenders(
    level: Level, dtype: torch.dtype, width: int, heat: float
) -> None:
    logits = some(64, width).to(dtype)
    keys = streams(64)
    found = told(draw.contenders(logits, every(logits), keys, torch.full((64,), heat)))
    scores = noise.perturb(logits.float() / heat, keys)
    for row, ids in enumerate(found):
        assert int(scores[row].argmax()) in ids
        near = scores[row] >= scores[row].max() - 1e-5
        assert set(near.nonzero()[:, 0].tolist()) <= set(ids)
        assert ids == sorted(ids) and len(ids) < 4
    assert sum(map(len, found)) < 70


def test_flat_and_steep_rows_are_drawn_as_torch_draws_them(level: Level) -> None:
    for spread in (0.0, 0.01, 1.0, 30.0, 1e4):
        logits, keys = some(40, 3_000, spread), streams(40, position=5)
        found = told(draw.contenders(logits, every(logits), keys, torch.ones(40)))
        right = noise.perturb(logits.clone(), keys).argmax(-1).tolist()
        assert all(id in ids for id, ids in zip(right, found, strict=True))


def test_only_the_rows_named_are_looked_at_wherever_they_begin(level: Level) -> None:
    wide = some(8, 1_000)
    logits, where, keys = wide[:, 3:603], torch.tensor([6, 1, 1]), streams(3)
    found = draw.contenders(logits, where, keys, torch.ones(3))
    alone = [
        draw.contenders(
            logits[row : row + 1].clone(), torch.tensor([0]), keys[place : place + 1], torch.ones(1)
        )
        for place, row in enumerate(where.tolist())
    ]
    assert told(found) == [told(one)[0] for one in alone]
    assert draw.largest(logits, where)[1].tolist() == logits[where].argmax(-1).tolist()


@pytest.mark.parametrize("fault", (float("nan"), float("inf")))
def test_what_is_no_number_is_told_of(level: Level, fault: float) -> None:
    logits = some(3, 600)
    logits[1, 599] = fault
    assert draw.largest(logits, every(logits))[0].isfinite().tolist() == [True, False, True]
    counts = draw.contenders(logits, every(logits), streams(3), torch.ones(3)).counts.tolist()
    assert counts[0] == counts[2] == 1 and counts[1] not in (0, draw.TOO_MANY) and counts[1] < 0


def test_tokens_that_are_gone_never_win_and_where_all_are_none_is_left(level: Level) -> None:
    logits = torch.full((40, 700), GONE)
    logits[:39, 699] = -1e30
    logits[:39, 300] = -50.0
    found = told(draw.contenders(logits, every(logits), streams(40), torch.ones(40)))
    assert found == [[300]] * 39 + [[]]
    assert draw.largest(logits, every(logits))[0][39] == GONE


def test_where_noise_drowns_among_equals_they_are_too_many(level: Level) -> None:
    logits = torch.zeros(2, 500)
    logits[0], logits[1, ::10] = 1e12, 1e12
    counts = draw.contenders(logits, every(logits), streams(2), torch.ones(2)).counts.tolist()
    assert counts == [draw.TOO_MANY, 50]


def test_tokens_below_the_floor_are_out(level: Level) -> None:
    logits, keys = some(50, 2_000), streams(50)
    floors = (logits / 0.7).topk(9).values[:, -1].contiguous()
    heats = torch.full((50,), 0.7)
    found = told(draw.contenders(logits, every(logits), keys, heats, floors))
    left = (logits / 0.7).masked_fill(logits / 0.7 < floors[:, None], GONE)
    right = noise.perturb(left, keys).argmax(-1).tolist()
    assert all(id in ids for id, ids in zip(right, found, strict=True))
    assert all((logits[row, ids] / 0.7 >= floors[row]).all() for row, ids in enumerate(found))
