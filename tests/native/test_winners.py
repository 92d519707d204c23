"""Native code draws as torch does, at each level, or says that it cannot tell."""

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
    return noise.states(range(count), [position] * count)


def keys(count: int, position: int = 0) -> Tensor:
    return noise.keys(range(count), [position] * count, CPU)


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
def test_the_winner_is_torchs_unless_others_are_too_near(
    level: Level, dtype: torch.dtype, width: int, heat: float
) -> None:
    logits = some(64, width).to(dtype)
    ids = draw.winners(logits, every(logits), streams(64), torch.full((64,), heat))
    scores = noise.perturb(logits.float() / heat, keys(64))
    told = ids != draw.TOO_NEAR
    assert torch.equal(ids[told], scores.argmax(-1)[told])
    assert int(told.sum()) > 62
    if width > 1:
        first, second = scores.topk(2).values.T
        assert bool((first - second)[told].min() > 1e-5)


def test_flat_and_steep_rows_are_drawn_as_torch_draws_them(level: Level) -> None:
    for spread in (0.0, 0.01, 1.0, 30.0, 1e4):
        logits = some(400, 1_000, spread)
        ids = draw.winners(logits, every(logits), streams(400, 5), torch.ones(400))
        right = noise.perturb(logits.clone(), keys(400, 5)).argmax(-1)
        told = ids != draw.TOO_NEAR
        assert torch.equal(ids[told], right[told]) and int(told.sum()) > 390


def test_only_the_rows_named_are_looked_at_wherever_they_begin(level: Level) -> None:
    wide = some(8, 1_000)
    logits, where, states, one = wide[:, 3:603], torch.tensor([6, 1, 1]), streams(3), torch.ones(1)
    ids = draw.winners(logits, where, states, one.repeat(3))
    alone = [
        draw.winners(logits[row : row + 1].clone(), torch.tensor([0]), states[place : place + 1], one)
        for place, row in enumerate(where.tolist())
    ]
    assert torch.equal(ids, torch.cat(alone))
    assert draw.largest(logits, where)[1].tolist() == logits[where].argmax(-1).tolist()


@pytest.mark.parametrize("fault", (float("nan"), float("inf")))
def test_what_is_no_number_is_told_of(level: Level, fault: float) -> None:
    logits = some(3, 600)
    logits[1, 599] = fault
    assert draw.largest(logits, every(logits))[0].isfinite().tolist() == [True, False, True]
    ids = draw.winners(logits, every(logits), streams(3), torch.ones(3))
    assert (ids >= 0).tolist() == [True, False, True] and ids[1] != draw.TOO_NEAR


def test_tokens_that_are_gone_never_win_and_where_all_are_none_is_left(level: Level) -> None:
    logits = torch.full((40, 700), GONE)
    logits[:39, 699] = -1e30
    logits[:39, 300] = -50.0
    ids = draw.winners(logits, every(logits), streams(40), torch.ones(40)).tolist()
    assert ids[:39] == [300] * 39 and ids[39] < 0 and ids[39] != draw.TOO_NEAR
    assert draw.largest(logits, every(logits))[0][39] == GONE


def test_those_that_the_last_bits_would_decide_are_told_of(level: Level) -> None:
    logits = torch.zeros(3, 500)
    logits[0], logits[1, ::10] = 1e12, 1e12
    logits[2, 7] = 1e12
    ids = draw.winners(logits, every(logits), streams(3), torch.ones(3)).tolist()
    assert ids == [draw.TOO_NEAR, draw.TOO_NEAR, 7]


def test_tokens_below_the_floor_are_out(level: Level) -> None:
    logits = some(300, 2_000)
    scaled = logits / 0.7
    floors = scaled.topk(9).values[:, -1].contiguous()
    ids = draw.winners(logits, every(logits), streams(300), torch.full((300,), 0.7), floors)
    right = noise.perturb(scaled.masked_fill(scaled < floors[:, None], GONE), keys(300)).argmax(-1)
    told = ids != draw.TOO_NEAR
    assert torch.equal(ids[told], right[told]) and int(told.sum()) > 295
