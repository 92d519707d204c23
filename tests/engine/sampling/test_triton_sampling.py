"""The Triton kernels sample the same tokens as torch, in Triton's interpreter where there is no GPU."""

from types import SimpleNamespace

import pytest
import torch

if torch.cuda.is_available():
    pytest.skip("the kernels are compiled here: see test_triton_on_gpu.py", allow_module_level=True)
pytest.importorskip("triton", reason="comes only with the CUDA build of torch")

import triton.language as tl

from inference.engine.sampling import triton_sampling
from inference.engine.sampling.triton_sampling import SampledRow, sample, sample_with_torch

VOCAB = 1500  # more than a block of the noise, and no multiple of one
ROUNDING = 1e-6  # probability of the tokens that a sum in another order may keep or exclude
NAN, INF = float("nan"), float("inf")
CUTS = {
    "no filter": {},
    "the best token": {"top_k": 1},
    "top_k": {"top_k": 20},
    "top_k of all but one": {"top_k": VOCAB - 1},
    "top_k of all": {"top_k": VOCAB},
    "top_k of more than all": {"top_k": VOCAB + 7},
    "least top_p": {"top_p": 0.0001},
    "half": {"top_p": 0.5},
    "nearly all": {"top_p": 0.9999},
    "min_p": {"min_p": 0.1},
    "min_p of 1": {"min_p": 1.0},
    "all filters": {"top_k": 300, "top_p": 0.8, "min_p": 0.02, "temperature": 1.4},
}
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # uint64 products wrap; -inf times 0 is NaN


@pytest.fixture(autouse=True)
def libdevice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions of CUDA's libdevice, which the interpreter lacks."""

    def log1p(values: tl.tensor) -> tl.tensor:
        return tl.log(1.0 + values.to(tl.float64)).to(tl.float32)

    library = SimpleNamespace(log=lambda values: tl.log(values), log1p=log1p)
    monkeypatch.setattr(triton_sampling._kernels(), "libdevice", library)


def random_logits(rows: int, vocab: int = VOCAB, spread: float = 2.0) -> torch.Tensor:
    return torch.randn(rows, vocab, generator=torch.Generator().manual_seed(rows)) * spread


def sampled_rows(count: int, **params: float) -> list[SampledRow]:
    return [SampledRow(row, seed=31 * row, position=row % 7, **params) for row in range(count)]


def kept_tokens(logits: torch.Tensor, rows: list[SampledRow]) -> torch.Tensor:
    """Mask (n, V) of the tokens that the kernel's cutoffs keep."""
    scaled = sample_with_torch(logits, rows)[0]
    cutoffs = triton_sampling._compute_cutoffs(logits, *triton_sampling._parameters(logits, rows))
    return (scaled >= cutoffs[:, None]) & ~scaled.isneginf()


def moved_share(logits: torch.Tensor, rows: list[SampledRow]) -> float:
    """The largest probability of the tokens that either torch or the kernels alone keep."""
    scaled, warped_logits, _, _ = sample_with_torch(logits, rows)
    is_moved = kept_tokens(logits, rows) == warped_logits.isneginf()
    return float((scaled.softmax(-1) * is_moved).sum(-1).max())


@pytest.mark.parametrize("dtype", triton_sampling.DTYPES, ids=str)
@pytest.mark.parametrize("params", CUTS.values(), ids=CUTS.keys())
def test_the_kernels_and_torch_sample_the_same_tokens(params: dict[str, float], dtype: torch.dtype) -> None:
    for spread in (0.3, 4.0):
        logits, rows = random_logits(8, spread=spread).to(dtype), sampled_rows(8, **params)
        _, _, values, ids = sample_with_torch(logits, rows)
        assert moved_share(logits, rows) < ROUNDING
        max_values, token_ids = sample(logits, rows)
        assert token_ids.tolist() == ids.tolist()
        assert torch.allclose(max_values, values, rtol=1e-5, atol=1e-5)


def test_rows_with_different_parameters_share_a_launch_in_any_order() -> None:
    logits = random_logits(2 * len(CUTS)).bfloat16()
    rows = [SampledRow(2 * i + 1, seed=i, position=3, **each) for i, each in enumerate(CUTS.values())][::-1]
    assert sample(logits, rows)[1].tolist() == sample_with_torch(logits, rows)[3].tolist()
    alone = [sample(logits, [row])[1].item() for row in rows]
    assert sample(logits, rows)[1].tolist() == alone


def test_the_stride_of_a_row_may_exceed_the_vocabulary() -> None:
    padded, rows = random_logits(4, VOCAB + 9), sampled_rows(4, top_p=0.7)
    padded[:, VOCAB:] = 1e4
    logits = padded[:, :VOCAB]
    assert sample(logits, rows)[1].tolist() == sample_with_torch(logits, rows)[3].tolist()


@pytest.mark.parametrize("params", CUTS.values(), ids=CUTS.keys())
def test_tokens_that_tie_with_the_last_one_kept_are_kept(params: dict[str, float]) -> None:
    """Logits of few values; at the extremes, -inf and logits that a model uses in place of -inf."""
    logits = random_logits(6).mul(2).round().div(2)
    logits[1, ::3], logits[2, 1:], logits[3] = -INF, -INF, 1.0
    logits[4, ::2], logits[5, ::2] = torch.finfo(torch.float32).min, -1e9
    rows = sampled_rows(6, **params)
    _, warped_logits, _, ids = sample_with_torch(logits, rows)
    assert torch.equal(kept_tokens(logits, rows), ~warped_logits.isneginf())
    assert sample(logits, rows)[1].tolist() == ids.tolist()


@pytest.mark.parametrize("params", CUTS.values(), ids=CUTS.keys())
def test_a_row_without_a_token_has_a_value_that_is_not_finite(params: dict[str, float]) -> None:
    logits = random_logits(7)
    logits[1, 3], logits[2, VOCAB - 1], logits[3] = NAN, INF, -INF
    logits[4], logits[5, 7] = NAN, -INF
    max_values, ids = sample(logits, sampled_rows(7, **params))
    assert max_values.isfinite().tolist() == [True, False, False, False, False, True, True]
    assert bool(((ids >= 0) & (ids < VOCAB)).all())


@pytest.mark.parametrize("temperature", [0.0, 1e-12, 0.01, 3.0, 40.0])
def test_extreme_temperatures_sample_as_torch_does(temperature: float) -> None:
    logits = random_logits(6)
    for params in ({}, {"top_k": 9}, {"top_p": 0.6}, {"min_p": 0.3}):
        rows = sampled_rows(6, temperature=temperature, **params)
        assert sample(logits, rows)[1].tolist() == sample_with_torch(logits, rows)[3].tolist()


def test_equal_values_select_the_first_token() -> None:
    """At the lowest temperature the noise is too small to change a value."""
    logits = random_logits(3)
    logits[0, [7, 1400]], logits[1, [1030, 1031]], logits[2, [1023, 1024]] = 50.0, 50.0, 50.0
    assert sample(logits, sampled_rows(3, temperature=0.0))[1].tolist() == [7, 1030, 1023]


def test_many_seeds_sample_as_torch_does() -> None:
    logits = random_logits(1, 40)
    rows = [SampledRow(0, seed, seed % 11, 0.9, 30, 0.95, 0.01) for seed in range(-50, 2**64, 2**64 // 120)]
    assert sample(logits, rows)[1].tolist() == sample_with_torch(logits, rows)[3].tolist()


def test_the_noise_is_that_of_torch() -> None:
    """With equal logits the largest noise wins; it comes from a small number, of which every bit matters."""
    logits, rows = torch.zeros(6, 20_000), sampled_rows(6)
    _, _, values, ids = sample_with_torch(logits, rows)
    max_values, token_ids = sample(logits, rows)
    assert token_ids.tolist() == ids.tolist()
    assert torch.allclose(max_values, values, rtol=1e-6, atol=1e-6)


def test_cutoffs_between_adjacent_numbers_are_found() -> None:
    logits = 1 + 2.0**-23 * torch.arange(50).repeat(3, 4)
    for k in (1, 2, 99, 199):
        rows = sampled_rows(3, top_k=k)
        assert torch.equal(kept_tokens(logits, rows), ~sample_with_torch(logits, rows)[1].isneginf())


def test_tokens_follow_their_probabilities() -> None:
    draws, logits = 2_000, random_logits(1, 16, spread=1.0)
    rows = [SampledRow(0, seed=5, position=position) for position in range(draws)]
    counts = sample(logits, rows)[1].bincount(minlength=16)
    expected = draws * logits[0].softmax(-1)
    assert float(((counts - expected) ** 2 / expected).sum()) < 45  # 15 degrees of freedom


def test_kernels_that_are_wrong_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = torch.device("cpu"), torch.bfloat16, 200
    triton_sampling.is_verified.cache_clear()
    assert triton_sampling.is_verified(*layout, True) and triton_sampling.is_verified(*layout, False)
    triton_sampling.is_verified.cache_clear()
    wrong = {"log": lambda values: tl.log(values) * 0.99, "log1p": triton_sampling._kernels().libdevice.log1p}
    monkeypatch.setattr(triton_sampling._kernels(), "libdevice", SimpleNamespace(**wrong))
    assert not triton_sampling.is_verified(*layout, True)
    triton_sampling.is_verified.cache_clear()
