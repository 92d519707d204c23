"""Gumbel noise: a function of seed, position and column, computed from uniform random numbers."""

import math

import pytest
import torch

from inference.engine.sampling import gumbel

CPU = torch.device("cpu")


def uniforms(seeds: list[int], positions: list[int], width: int) -> torch.Tensor:
    """The uniform numbers beneath the noise, (n, width) in (0, 1): the Gumbel CDF of the noise."""
    keys = gumbel.rng_keys(seeds, positions, CPU)
    return (-(-gumbel.gumbel_noise(keys[:, None], torch.arange(width)).double()).exp()).exp()


def splitmix64(state: int, count: int) -> list[int]:
    """Vigna's splitmix64.c, in Python integers."""
    outputs = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        outputs.append(z ^ (z >> 31))
    return outputs


@pytest.mark.parametrize("seed", [0, 1, 1234567, 2**63, 2**64 - 1])
def test_keys_are_the_outputs_of_splitmix64(seed: int) -> None:
    keys = gumbel.rng_keys([seed] * 5, list(range(5)), CPU)
    assert [key % 2**64 for key in keys.tolist()] == splitmix64(seed, 5)


def test_the_published_first_outputs_of_seed_1234567_are_reproduced() -> None:
    assert [key % 2**64 for key in gumbel.rng_keys([1234567] * 2, [0, 1], CPU).tolist()] == [
        6457827717110365317,
        3203168211198807973,
    ]


def test_the_uniforms_have_the_mean_and_variance_of_uniforms() -> None:
    u = uniforms(list(range(40)), [7] * 40, 25_000)
    assert float(u.mean()) == pytest.approx(1 / 2, abs=5 * math.sqrt(1 / 12 / u.numel()))
    assert float(u.var()) == pytest.approx(1 / 12, abs=5 * math.sqrt(1 / 180 / u.numel()))


@pytest.mark.parametrize("axis", ["columns", "seeds", "positions"])
def test_the_uniforms_fill_their_bins_evenly(axis: str) -> None:
    n = 100_000
    u = {
        "columns": lambda: uniforms([3], [0], n),
        "seeds": lambda: uniforms(list(range(n)), [0] * n, 1),
        "positions": lambda: uniforms([3] * n, list(range(n)), 1),
    }[axis]()
    counts = torch.histc(u.float(), bins=100, min=0, max=1)
    chi_square = float(((counts - n / 100) ** 2 / (n / 100)).sum())
    assert 50 < chi_square < 165  # 99 degrees of freedom: outside once in 20,000 at either side


@pytest.mark.parametrize("step", [(1, 0), (0, 1), (1, 1), (2**32, 0)])
def test_neighbouring_streams_are_uncorrelated(step: tuple[int, int]) -> None:
    seeds, positions = list(range(100)), list(range(100))
    here = uniforms(seeds, positions, 1_000)
    there = uniforms([s + step[0] for s in seeds], [p + step[1] for p in positions], 1_000)
    pair = torch.stack([here.flatten(), there.flatten()])
    assert abs(float(torch.corrcoef(pair)[0, 1])) < 5 / math.sqrt(here.numel())


def test_neighbouring_columns_are_uncorrelated() -> None:
    u = uniforms(list(range(100)), [0] * 100, 1_001)
    pair = torch.stack([u[:, 1:].flatten(), u[:, :-1].flatten()])
    assert abs(float(torch.corrcoef(pair)[0, 1])) < 5 / math.sqrt(u.numel())


def test_the_noise_is_finite_over_its_whole_range() -> None:
    values = gumbel.gumbel_noise(
        gumbel.rng_keys(list(range(64)), [0] * 64, CPU)[:, None], torch.arange(150_000)
    )
    assert bool(values.isfinite().all())
    assert 14 < float(values.max()) < 23 and -4 < float(values.min()) < -2


def test_sparse_and_dense_rows_get_the_same_noise() -> None:
    logits = torch.randn(4, 5_000)
    few = logits.where(logits > 1.5, float("-inf"))
    keys = gumbel.rng_keys([1, 2, 3, 4], [0, 9, 9, 9], CPU)
    sparse, dense = gumbel.add_gumbel_noise(few.clone(), keys), gumbel.add_gumbel_noise(logits.clone(), keys)
    finite = few.isfinite()
    assert torch.equal(sparse[finite], dense[finite])
    assert bool((sparse[~finite] == float("-inf")).all())


def test_tokens_that_the_noise_skips_could_not_have_won() -> None:
    logits = torch.randn(64, 2_000, generator=torch.Generator().manual_seed(2)) * 12
    keys = gumbel.rng_keys(list(range(64)), [5] * 64, CPU)
    everywhere = logits + gumbel.gumbel_noise(keys[:, None], torch.arange(2_000))
    some = gumbel.add_gumbel_noise(logits.clone(), keys)
    assert int((some == logits).sum()) > logits.numel() / 2
    assert torch.equal(some.argmax(-1), everywhere.argmax(-1))
    most, least = -math.log(-math.log1p(-(2.0**-32))), -math.log(-math.log(2.0**-24))
    assert most - least < gumbel.NOISE_RANGE


def test_tokens_sampled_at_successive_positions_follow_their_probabilities() -> None:
    draws = 20_000
    logits = torch.randn(8, generator=torch.Generator().manual_seed(6)) * 2
    keys = gumbel.rng_keys([11] * draws, list(range(draws)), CPU)
    counts = gumbel.add_gumbel_noise(logits.repeat(draws, 1), keys).argmax(-1).bincount(minlength=8)
    expected = draws * logits.softmax(-1)
    assert float(((counts - expected) ** 2 / expected).sum()) < 35  # 7 degrees of freedom
