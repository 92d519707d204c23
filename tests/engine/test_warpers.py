"""Each warper against transformers' own, mixed values in one batch against each row alone."""

import math
from collections.abc import Callable
from functools import partial
from itertools import accumulate, pairwise

import pytest
import torch
from transformers import (
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

from inference.engine.cuts import HEAD
from inference.engine.warpers import WARPERS

VALUES = {
    "temperature": [0.1, 0.7, 1.3, 5.0],
    "top_k": [1, 5, 50, 999],
    "top_p": [0.01, 0.5, 0.9, 0.999],
    "min_p": [0.01, 0.1, 0.5, 1.0],
    "typical_p": [0.01, 0.2, 0.9, 0.999],
    "tfs": [0.01, 0.5, 0.95, 0.999],
    "top_a": [0.01, 0.2, 0.5, 1.0],
}
REFERENCE: dict[str, Callable[..., object]] = {
    "temperature": TemperatureLogitsWarper,
    "top_k": TopKLogitsWarper,
    "top_p": TopPLogitsWarper,
    "min_p": MinPLogitsWarper,
    "typical_p": TypicalLogitsWarper,
    "tfs": lambda value: partial(tail_free, value),
    "top_a": lambda value: partial(above_square, value),
}
EACH = pytest.mark.parametrize("name", list(WARPERS))


def tail_free(share: float, _: None, logits: torch.Tensor) -> torch.Tensor:
    """Tail-free sampling as its paper puts it, one row, number by number."""
    probs = logits[0].softmax(-1).tolist()
    ids = sorted(range(len(probs)), key=lambda id: -probs[id])
    drops = [probs[b] - probs[a] for a, b in pairwise(ids)]
    bends = [abs(b - a) for a, b in pairwise(drops)]
    kept = [0, *(i for i, past in enumerate(accumulate(bends), 1) if past <= share * sum(bends))]
    return logits.index_fill(1, torch.tensor([ids[i] for i in range(len(ids)) if i not in kept]), -math.inf)


def above_square(factor: float, _: None, logits: torch.Tensor) -> torch.Tensor:
    probs = logits.softmax(-1)
    return logits.where(probs >= factor * probs.max() ** 2, -math.inf)


def some_logits(rows: int, width: int = 4_000, scale: float = 2.0) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(rows)) * scale


@EACH
def test_a_warper_does_what_transformers_does(name: str) -> None:
    logits = some_logits(4)
    warped = WARPERS[name].warp(logits, VALUES[name])
    for row, value in enumerate(VALUES[name]):
        assert torch.equal(warped[row : row + 1], REFERENCE[name](value)(None, logits[row : row + 1]))


@EACH
def test_a_row_in_a_batch_is_the_row_alone_bit_for_bit(name: str) -> None:
    logits = some_logits(8)
    values = VALUES[name] + VALUES[name][::-1]
    together = WARPERS[name].warp(logits, values)
    alone = [WARPERS[name].warp(logits[i : i + 1], values[i : i + 1]) for i in range(8)]
    assert torch.equal(together, torch.cat(alone))


@EACH
def test_a_warper_leaves_the_logits_it_was_given(name: str) -> None:
    logits = some_logits(4)
    before = logits.clone()
    WARPERS[name].warp(logits, VALUES[name])
    assert torch.equal(logits, before)


@EACH
def test_some_token_is_always_left_and_mostly_the_most_probable(name: str) -> None:
    logits = some_logits(3)
    lowest = {"temperature": 1e-30, "top_k": 1, "top_p": 1e-9, "min_p": 1.0, "tfs": 1e-9, "top_a": 1.0}
    warped = WARPERS[name].warp(logits, [lowest.get(name, 1e-9)] * 3)
    assert name == "typical_p" or torch.equal(warped.argmax(-1), logits.argmax(-1))
    assert bool(warped.amax(-1).isfinite().all())


@EACH
def test_removed_tokens_stay_removed(name: str) -> None:
    logits = some_logits(4)
    logits[:, ::3] = float("-inf")
    warped = WARPERS[name].warp(logits, VALUES[name])
    assert bool((warped[:, ::3] == float("-inf")).all()) and not bool(warped.isnan().any())


@pytest.mark.parametrize("extreme", [1e-45, 1e-30, 1e-20, 1e20, 1e38, float("inf")])
def test_an_extreme_temperature_yields_numbers(extreme: float) -> None:
    logits = torch.tensor([[300.0, -300.0, 0.0, float("-inf")]])
    warped = WARPERS["temperature"].warp(logits, [extreme])
    assert bool(warped[:, :3].isfinite().all()) and float(warped[0, 3]) == float("-inf")


def test_a_nucleus_longer_than_the_head_is_found() -> None:
    logits = some_logits(3, width=4 * HEAD, scale=0.1)
    warped = WARPERS["top_p"].warp(logits, [0.9, 0.2, 0.9])
    assert int(warped[0].isfinite().sum()) > HEAD > int(warped[1].isfinite().sum())
    for row, value in enumerate((0.9, 0.2, 0.9)):
        assert torch.equal(warped[row : row + 1], TopPLogitsWarper(value)(None, logits[row : row + 1]))


@pytest.mark.parametrize("scale", [0.1, 2.0, 6.0])
def test_a_cut_beyond_the_head_is_found_as_well(scale: float) -> None:
    logits = some_logits(4, width=3 * HEAD, scale=scale)
    for name in ("typical_p", "tfs"):
        warped = WARPERS[name].warp(logits, VALUES[name])
        for row, value in enumerate(VALUES[name]):
            reference = REFERENCE[name](value)(None, logits[row : row + 1])
            assert torch.equal(warped[row : row + 1], reference), (name, value)


def test_the_tail_of_few_tokens_left_is_known_without_the_others() -> None:
    logits = some_logits(2, width=3 * HEAD, scale=6.0)
    logits = WARPERS["top_k"].warp(logits, [40, 40])
    warped = WARPERS["tfs"].warp(logits, [0.9, 1.0])
    assert torch.equal(warped[:1], tail_free(0.9, None, logits[:1]))
    assert torch.equal(warped[1], logits[1])  # the last token of all is one that is removed already


@pytest.mark.parametrize("width", [5, 2 * HEAD])
def test_equal_tokens_have_no_tail_but_the_last(width: int) -> None:
    warped = WARPERS["tfs"].warp(torch.zeros(1, width), [0.5])
    assert warped[0].isfinite().tolist() == [True] * (width - 1) + [False]


def test_of_two_tokens_the_tail_is_the_second() -> None:
    warped = WARPERS["tfs"].warp(torch.tensor([[1.0, 2.0]]), [1.0])
    assert warped[0].isfinite().tolist() == [False, True]


def test_tied_tokens_share_the_fate_of_the_last_that_is_kept() -> None:
    logits = torch.tensor([[3.0, 1.0, 1.0, 1.0, 0.0]])
    for name, value in (("top_k", 2), ("top_p", float(logits.softmax(-1)[0, 0]) + 0.01)):
        assert WARPERS[name].warp(logits, [value]).isfinite().tolist() == [[True] * 4 + [False]]


def test_a_row_of_nan_stays_a_row_of_nan() -> None:
    logits = some_logits(2)
    logits[0] = float("nan")
    for name, (warp, _) in WARPERS.items():
        warped = warp(logits, VALUES[name][1:3])
        assert bool(warped[0].isnan().any()) and not bool(warped[1].isnan().any())
