"""Each warper against transformers'; rows with different values in one batch against each row alone."""

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

from inference.engine.sampling.warpers import PARTIAL_SORT_SIZE, WARPERS

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
    """Tail-free sampling by its paper's formula, for one row, in Python numbers."""
    probs = logits[0].softmax(-1).tolist()
    ids = sorted(range(len(probs)), key=lambda id: -probs[id])
    drops = [probs[b] - probs[a] for a, b in pairwise(ids)]
    bends = [abs(b - a) for a, b in pairwise(drops)]
    kept_ranks = [0, *(i for i, past in enumerate(accumulate(bends), 1) if past <= share * sum(bends))]
    return logits.index_fill(
        1, torch.tensor([ids[i] for i in range(len(ids)) if i not in kept_ranks]), -math.inf
    )


def above_square(factor: float, _: None, logits: torch.Tensor) -> torch.Tensor:
    probs = logits.softmax(-1)
    return logits.where(probs >= factor * probs.max() ** 2, -math.inf)


def some_logits(rows: int, width: int = 4_000, scale: float = 2.0) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(rows)) * scale


@EACH
def test_a_warper_does_what_transformers_does(name: str) -> None:
    logits = some_logits(4)
    warped_logits = WARPERS[name].warp(logits, VALUES[name])
    for row, value in enumerate(VALUES[name]):
        assert torch.equal(warped_logits[row : row + 1], REFERENCE[name](value)(None, logits[row : row + 1]))


@EACH
def test_a_row_in_a_batch_is_the_row_alone_bit_for_bit(name: str) -> None:
    logits = some_logits(8)
    values = VALUES[name] + VALUES[name][::-1]
    together = WARPERS[name].warp(logits, values)
    alone = [WARPERS[name].warp(logits[i : i + 1], values[i : i + 1]) for i in range(8)]
    assert torch.equal(together, torch.cat(alone))


@EACH
def test_a_warper_does_not_modify_its_input(name: str) -> None:
    logits = some_logits(4)
    before = logits.clone()
    WARPERS[name].warp(logits, VALUES[name])
    assert torch.equal(logits, before)


@EACH
def test_at_least_one_token_remains_and_mostly_the_most_probable(name: str) -> None:
    logits = some_logits(3)
    lowest = {"temperature": 1e-30, "top_k": 1, "top_p": 1e-9, "min_p": 1.0, "tfs": 1e-9, "top_a": 1.0}
    warped_logits = WARPERS[name].warp(logits, [lowest.get(name, 1e-9)] * 3)
    assert name == "typical_p" or torch.equal(warped_logits.argmax(-1), logits.argmax(-1))
    assert bool(warped_logits.amax(-1).isfinite().all())


@EACH
def test_removed_tokens_stay_removed(name: str) -> None:
    logits = some_logits(4)
    logits[:, ::3] = float("-inf")
    warped_logits = WARPERS[name].warp(logits, VALUES[name])
    assert bool((warped_logits[:, ::3] == float("-inf")).all()) and not bool(warped_logits.isnan().any())


@pytest.mark.parametrize("extreme", [1e-45, 1e-30, 1e-20, 1e20, 1e38, float("inf")])
def test_an_extreme_temperature_yields_numbers(extreme: float) -> None:
    logits = torch.tensor([[300.0, -300.0, 0.0, float("-inf")]])
    warped_logits = WARPERS["temperature"].warp(logits, [extreme])
    assert bool(warped_logits[:, :3].isfinite().all()) and float(warped_logits[0, 3]) == float("-inf")


def test_a_nucleus_longer_than_the_partial_sort_is_found() -> None:
    logits = some_logits(3, width=4 * PARTIAL_SORT_SIZE, scale=0.1)
    warped_logits = WARPERS["top_p"].warp(logits, [0.9, 0.2, 0.9])
    assert int(warped_logits[0].isfinite().sum()) > PARTIAL_SORT_SIZE > int(warped_logits[1].isfinite().sum())
    for row, value in enumerate((0.9, 0.2, 0.9)):
        assert torch.equal(warped_logits[row : row + 1], TopPLogitsWarper(value)(None, logits[row : row + 1]))


@pytest.mark.parametrize("scale", [0.1, 2.0, 6.0])
def test_a_tail_that_starts_beyond_the_partial_sort_is_found(scale: float) -> None:
    logits = some_logits(4, width=3 * PARTIAL_SORT_SIZE, scale=scale)
    for name in ("typical_p", "tfs"):
        warped_logits = WARPERS[name].warp(logits, VALUES[name])
        for row, value in enumerate(VALUES[name]):
            reference = REFERENCE[name](value)(None, logits[row : row + 1])
            assert torch.equal(warped_logits[row : row + 1], reference), (name, value)


def test_the_tail_of_a_row_with_few_tokens_is_exact() -> None:
    logits = some_logits(2, width=3 * PARTIAL_SORT_SIZE, scale=6.0)
    logits = WARPERS["top_k"].warp(logits, [40, 40])
    warped_logits = WARPERS["tfs"].warp(logits, [0.9, 1.0])
    assert torch.equal(warped_logits[:1], tail_free(0.9, None, logits[:1]))
    # tfs=1 removes only the last token, which top-k has removed already
    assert torch.equal(warped_logits[1], logits[1])


@pytest.mark.parametrize("width", [5, 2 * PARTIAL_SORT_SIZE])
def test_equal_tokens_lose_only_the_last_one_as_their_tail(width: int) -> None:
    warped_logits = WARPERS["tfs"].warp(torch.zeros(1, width), [0.5])
    assert warped_logits[0].isfinite().tolist() == [True] * (width - 1) + [False]


def test_the_tail_of_two_tokens_is_the_less_probable_one() -> None:
    warped_logits = WARPERS["tfs"].warp(torch.tensor([[1.0, 2.0]]), [1.0])
    assert warped_logits[0].isfinite().tolist() == [False, True]


def test_tokens_tied_with_the_last_kept_token_are_kept() -> None:
    logits = torch.tensor([[3.0, 1.0, 1.0, 1.0, 0.0]])
    for name, value in (("top_k", 2), ("top_p", float(logits.softmax(-1)[0, 0]) + 0.01)):
        assert WARPERS[name].warp(logits, [value]).isfinite().tolist() == [[True] * 4 + [False]]


def test_a_row_of_nan_stays_a_row_of_nan() -> None:
    logits = some_logits(2)
    logits[0] = float("nan")
    for name, (warp, _) in WARPERS.items():
        warped_logits = warp(logits, VALUES[name][1:3])
        assert bool(warped_logits[0].isnan().any()) and not bool(warped_logits[1].isnan().any())
