"""Native top-k, top-p and min-p cutoffs equal those of torch's warpers, at each level."""

import pytest
import torch
from torch import Tensor

from inference.engine.sampling.warpers import min_p, top_k, top_p
from inference.native import sampling
from inference.native.cpu_levels import Level

NONE = (0, 1.0, 0.0)
PLAIN = ((1, 1.0, 0.0), (40, 1.0, 0.0), (2_990, 1.0, 0.0), (0, 1.0, 0.05), (0, 1.0, 1.0))
SUMMED = ((0, 0.9, 0.0), (0, 0.1, 0.0), (0, 0.999, 0.0), (40, 0.9, 0.0), (5, 0.5, 0.1))
KINDS = ((0.1, 1.0), (1.0, 0.7), (4.0, 1.3), (40.0, 1.0))  # spread of the logits, temperature


def random_logits(rows: int, width: int, spread: float) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(width)) * spread


def floors(logits: Tensor, temperature: float, settings: list[tuple[int, float, float]]) -> Tensor:
    counts, shares, least = zip(*settings, strict=True)
    return sampling.compute_cutoffs(
        logits,
        torch.arange(len(logits)),
        torch.full((len(logits),), temperature),
        torch.tensor(counts, dtype=torch.int32),
        torch.tensor(shares),
        torch.tensor(least),
    )


def kept_by_torch(logits: Tensor, temperature: float, settings: tuple[int, float, float]) -> Tensor:
    """The tokens that torch's warpers keep, as a mask."""
    count, share, least = settings
    scaled = logits.float() / temperature
    scaled = top_k(scaled, [count] * len(scaled)) if count else scaled
    scaled = top_p(scaled, [share] * len(scaled)) if share < 1 else scaled
    scaled = min_p(scaled, [least] * len(scaled)) if least else scaled
    return scaled.isfinite()


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=("float32", "bfloat16"))
@pytest.mark.parametrize("settings", PLAIN + SUMMED, ids=str)
def test_native_cutoffs_keep_the_same_tokens_as_torch(
    level: Level, dtype: torch.dtype, settings: tuple[int, float, float]
) -> None:
    """Top-p only with small vocabularies: with many tokens, the last bits of torch's sums decide which token
    is last.
    """
    for width in (3, 100, 3_000, *((70_001,) if settings in PLAIN else ())):
        for spread, temperature in KINDS:
            logits = random_logits(4, width, spread).to(dtype)
            ours = logits.float() / temperature >= floors(logits, temperature, [settings] * 4)[:, None]
            assert torch.equal(ours, kept_by_torch(logits, temperature, settings)), (width, spread)


@pytest.mark.parametrize("share", (0.05, 0.5, 0.9, 0.9999))
def test_top_p_keeps_neither_too_many_nor_too_few_tokens(level: Level, share: float) -> None:
    for spread, temperature in KINDS:
        logits = random_logits(4, 70_001, spread)
        floor = floors(logits, temperature, [(0, share, 0.0)] * 4)[:, None]
        scaled = logits / temperature
        probs = scaled.double().softmax(-1)
        ours = scaled >= floor
        least = scaled.where(ours, float("inf")).amin(-1, keepdim=True)
        kept_mass, before = (probs.where(which, 0).sum(-1) for which in (ours, scaled > least))
        assert bool((kept_mass >= share - 1e-6).all()) and bool((before < share + 1e-6).all())


def test_each_row_has_its_own_cutoff_and_is_independent_of_the_batch(level: Level) -> None:
    settings = [*PLAIN, *SUMMED, NONE]
    logits = random_logits(len(settings), 3_000, 2.0)
    together = floors(logits, 0.8, settings)
    alone = [floors(logits[row : row + 1], 0.8, [each]) for row, each in enumerate(settings)]
    assert torch.equal(together, torch.cat(alone))
    assert together[-1] == float("-inf")


def test_ties_with_the_last_kept_token_and_the_most_probable_token_are_kept(level: Level) -> None:
    logits = torch.tensor([[3.0, 1.0, 2.0, 2.0, 2.0, -1.0, 0.0, float("-inf")]])
    assert floors(logits, 1.0, [(2, 1.0, 0.0)]).item() == 2.0
    for share in (0.0, 1e-9):
        assert 2.0 < floors(logits, 1.0, [(0, share, 0.0)]).item() <= 3.0
    assert bool((torch.zeros(1, 500) >= floors(torch.zeros(1, 500), 1.0, [(7, 0.1, 1.0)])).all())


def test_rows_without_finite_logits_have_no_cutoff(level: Level) -> None:
    logits = random_logits(3, 600, 1.0)
    logits[0], logits[1, 5] = float("-inf"), float("inf")
    cutoffs = floors(logits, 1.0, [(5, 0.5, 0.1)] * 3)
    assert cutoffs[:2].tolist() == [float("-inf")] * 2 and cutoffs[2] > 0
