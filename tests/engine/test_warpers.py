"""Each warper against transformers' own, mixed values in one batch against each row alone."""

from collections.abc import Callable

import pytest
import torch
from transformers import MinPLogitsWarper, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from inference.engine.warpers import HEAD, WARPERS

VALUES = {
    "temperature": [0.1, 0.7, 1.3, 5.0],
    "top_k": [1, 5, 50, 999],
    "top_p": [0.01, 0.5, 0.9, 0.999],
    "min_p": [0.01, 0.1, 0.5, 1.0],
}
REFERENCE: dict[str, Callable[..., object]] = {
    "temperature": TemperatureLogitsWarper,
    "top_k": TopKLogitsWarper,
    "top_p": TopPLogitsWarper,
    "min_p": MinPLogitsWarper,
}
EACH = pytest.mark.parametrize("name", list(WARPERS))


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
def test_the_most_probable_token_is_always_left(name: str) -> None:
    logits = some_logits(3)
    lowest = {"temperature": 1e-30, "top_k": 1, "top_p": 1e-9, "min_p": 1.0}[name]
    warped = WARPERS[name].warp(logits, [lowest] * 3)
    assert torch.equal(warped.argmax(-1), logits.argmax(-1))
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


def test_tied_tokens_share_the_fate_of_the_last_that_is_kept() -> None:
    logits = torch.tensor([[3.0, 1.0, 1.0, 1.0, 0.0]])
    for name, value in (("top_k", 2), ("top_p", float(logits.softmax(-1)[0, 0]) + 0.01)):
        assert WARPERS[name].warp(logits, [value]).isfinite().tolist() == [[True] * 4 + [False]]


def test_a_row_of_nan_stays_a_row_of_nan() -> None:
    logits = some_logits(2)
    logits[0] = float("nan")
    for name, (warp, _) in WARPERS.items():
        warped = warp(logits, VALUES[name][1:3])
        assert bool(warped[0].isnan().all()) and not bool(warped[1].isnan().any())
