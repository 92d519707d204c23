"""Native code cuts rows where torch's warpers do, at each level."""

import pytest
import torch
from torch import Tensor

from inference.engine.warpers import min_p, top_k, top_p
from inference.native import draw
from inference.native.levels import Level

NONE = (0, 1.0, 0.0)
PLAIN = ((1, 1.0, 0.0), (40, 1.0, 0.0), (2_990, 1.0, 0.0), (0, 1.0, 0.05), (0, 1.0, 1.0))
SUMMED = ((0, 0.9, 0.0), (0, 0.1, 0.0), (0, 0.999, 0.0), (40, 0.9, 0.0), (5, 0.5, 0.1))
KINDS = ((0.1, 1.0), (1.0, 0.7), (4.0, 1.3), (40.0, 1.0))  # spread and heat of logits


def some(rows: int, width: int, spread: float) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(width)) * spread


def floors(logits: Tensor, heat: float, asked: list[tuple[int, float, float]]) -> Tensor:
    counts, shares, least = zip(*asked, strict=True)
    return draw.floors(
        logits,
        torch.arange(len(logits)),
        torch.full((len(logits),), heat),
        torch.tensor(counts, dtype=torch.int32),
        torch.tensor(shares),
        torch.tensor(least),
    )


def kept(logits: Tensor, heat: float, asked: tuple[int, float, float]) -> Tensor:
    """Where torch's warpers leave something."""
    count, share, least = asked
    left = logits.float() / heat
    left = top_k(left, [count] * len(left)) if count else left
    left = top_p(left, [share] * len(left)) if share < 1 else left
    left = min_p(left, [least] * len(left)) if least else left
    return left.isfinite()


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=("float32", "bfloat16"))
@pytest.mark.parametrize("asked", PLAIN + SUMMED, ids=str)
def test_the_tokens_that_are_kept_are_those_that_torch_keeps(
    level: Level, dtype: torch.dtype, asked: tuple[int, float, float]
) -> None:
    """Of few, where top-p is asked: with many the last bits of torch's sums turn the choice of the last."""
    for width in (3, 100, 3_000, *((70_001,) if asked in PLAIN else ())):
        for spread, heat in KINDS:
            logits = some(4, width, spread).to(dtype)
            ours = logits.float() / heat >= floors(logits, heat, [asked] * 4)[:, None]
            assert torch.equal(ours, kept(logits, heat, asked)), (width, spread)


@pytest.mark.parametrize("share", (0.05, 0.5, 0.9, 0.9999))
def test_top_p_keeps_no_token_too_many_and_none_too_few(level: Level, share: float) -> None:
    for spread, heat in KINDS:
        logits = some(4, 70_001, spread)
        floor = floors(logits, heat, [(0, share, 0.0)] * 4)[:, None]
        scaled = logits / heat
        probs = scaled.double().softmax(-1)
        ours = scaled >= floor
        least = scaled.where(ours, float("inf")).amin(-1, keepdim=True)
        held, before = (probs.where(which, 0).sum(-1) for which in (ours, scaled > least))
        assert bool((held >= share - 1e-6).all()) and bool((before < share + 1e-6).all())


def test_each_row_is_cut_by_its_own_and_alike_in_any_company(level: Level) -> None:
    asked = [*PLAIN, *SUMMED, NONE]
    logits = some(len(asked), 3_000, 2.0)
    together = floors(logits, 0.8, asked)
    alone = [floors(logits[row : row + 1], 0.8, [each]) for row, each in enumerate(asked)]
    assert torch.equal(together, torch.cat(alone))
    assert together[-1] == float("-inf")


def test_ties_with_the_last_one_kept_are_kept_and_the_first_always_is(level: Level) -> None:
    logits = torch.tensor([[3.0, 1.0, 2.0, 2.0, 2.0, -1.0, 0.0, float("-inf")]])
    assert floors(logits, 1.0, [(2, 1.0, 0.0)]).item() == 2.0
    for share in (0.0, 1e-9):
        assert 2.0 < floors(logits, 1.0, [(0, share, 0.0)]).item() <= 3.0
    assert bool((torch.zeros(1, 500) >= floors(torch.zeros(1, 500), 1.0, [(7, 0.1, 1.0)])).all())


def test_where_nothing_is_left_or_no_number_is_there_the_floor_takes_nothing(level: Level) -> None:
    logits = some(3, 600, 1.0)
    logits[0], logits[1, 5] = float("-inf"), float("inf")
    made = floors(logits, 1.0, [(5, 0.5, 0.1)] * 3)
    assert made[:2].tolist() == [float("-inf")] * 2 and made[2] > 0
