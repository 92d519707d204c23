"""Native code samples the same tokens as torch, at each level, or reports that the choice is ambiguous."""

import pytest
import torch
from torch import Tensor

from inference.engine.sampling import gumbel
from inference.native import sampling
from inference.native.cpu_levels import Level

CPU = torch.device("cpu")
MASKED = float("-inf")
WIDTHS = (1, 7, 256, 257, 5_000)
DTYPES = pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=("float32", "bfloat16"))


def random_logits(rows: int, width: int, spread: float = 3.0) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(rows * width)) * spread


def all_rows(logits: Tensor) -> Tensor:
    return torch.arange(len(logits))


def streams(count: int, position: int = 0) -> Tensor:
    return gumbel.rng_states(range(count), [position] * count)


def keys(count: int, position: int = 0) -> Tensor:
    return gumbel.rng_keys(range(count), [position] * count, CPU)


@DTYPES
@pytest.mark.parametrize("width", WIDTHS)
def test_argmax_returns_the_first_of_equal_maxima(level: Level, dtype: torch.dtype, width: int) -> None:
    logits = (random_logits(9, width) * 2).round().to(dtype)  # with ties
    best, ids = sampling.argmax(logits, all_rows(logits))
    assert torch.equal(best, logits.float().amax(-1))
    assert ids.tolist() == [row.index(max(row)) for row in logits.tolist()]


@DTYPES
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("temperature", (0.3, 1.0, 2.5))
def test_the_sampled_token_is_torchs_unless_it_is_ambiguous(
    level: Level, dtype: torch.dtype, width: int, temperature: float
) -> None:
    logits = random_logits(64, width).to(dtype)
    ids = sampling.gumbel_argmax(logits, all_rows(logits), streams(64), torch.full((64,), temperature))
    scores = gumbel.add_gumbel_noise(logits.float() / temperature, keys(64))
    decided = ids != sampling.AMBIGUOUS
    assert torch.equal(ids[decided], scores.argmax(-1)[decided])
    assert int(decided.sum()) > 62
    if width > 1:
        first, second = scores.topk(2).values.T
        assert bool((first - second)[decided].min() > 1e-5)


def test_flat_and_steep_rows_are_sampled_as_in_torch(level: Level) -> None:
    for spread in (0.0, 0.01, 1.0, 30.0, 1e4):
        logits = random_logits(400, 1_000, spread)
        ids = sampling.gumbel_argmax(logits, all_rows(logits), streams(400, 5), torch.ones(400))
        right = gumbel.add_gumbel_noise(logits.clone(), keys(400, 5)).argmax(-1)
        decided = ids != sampling.AMBIGUOUS
        assert torch.equal(ids[decided], right[decided]) and int(decided.sum()) > 390


def test_only_the_given_rows_are_read_at_any_stride(level: Level) -> None:
    wide = random_logits(8, 1_000)
    logits, where, states, one = wide[:, 3:603], torch.tensor([6, 1, 1]), streams(3), torch.ones(1)
    ids = sampling.gumbel_argmax(logits, where, states, one.repeat(3))
    alone = [
        sampling.gumbel_argmax(
            logits[row : row + 1].clone(), torch.tensor([0]), states[place : place + 1], one
        )
        for place, row in enumerate(where.tolist())
    ]
    assert torch.equal(ids, torch.cat(alone))
    assert sampling.argmax(logits, where)[1].tolist() == logits[where].argmax(-1).tolist()


@pytest.mark.parametrize("fault", (float("nan"), float("inf")))
def test_nan_and_infinity_are_reported(level: Level, fault: float) -> None:
    logits = random_logits(3, 600)
    logits[1, 599] = fault
    assert sampling.argmax(logits, all_rows(logits))[0].isfinite().tolist() == [True, False, True]
    ids = sampling.gumbel_argmax(logits, all_rows(logits), streams(3), torch.ones(3))
    assert (ids >= 0).tolist() == [True, False, True] and ids[1] != sampling.AMBIGUOUS


def test_masked_tokens_never_win_and_a_fully_masked_row_is_reported(level: Level) -> None:
    logits = torch.full((40, 700), MASKED)
    logits[:39, 699] = -1e30
    logits[:39, 300] = -50.0
    ids = sampling.gumbel_argmax(logits, all_rows(logits), streams(40), torch.ones(40)).tolist()
    assert ids[:39] == [300] * 39 and ids[39] < 0 and ids[39] != sampling.AMBIGUOUS
    assert sampling.argmax(logits, all_rows(logits))[0][39] == MASKED


def test_tokens_too_close_to_decide_are_reported_as_ambiguous(level: Level) -> None:
    logits = torch.zeros(3, 500)
    logits[0], logits[1, ::10] = 1e12, 1e12
    logits[2, 7] = 1e12
    ids = sampling.gumbel_argmax(logits, all_rows(logits), streams(3), torch.ones(3)).tolist()
    assert ids == [sampling.AMBIGUOUS, sampling.AMBIGUOUS, 7]


def test_tokens_below_the_cutoff_are_excluded(level: Level) -> None:
    logits = random_logits(300, 2_000)
    scaled = logits / 0.7
    floors = scaled.topk(9).values[:, -1].contiguous()
    ids = sampling.gumbel_argmax(logits, all_rows(logits), streams(300), torch.full((300,), 0.7), floors)
    right = gumbel.add_gumbel_noise(scaled.masked_fill(scaled < floors[:, None], MASKED), keys(300)).argmax(
        -1
    )
    decided = ids != sampling.AMBIGUOUS
    assert torch.equal(ids[decided], right[decided]) and int(decided.sum()) > 295
