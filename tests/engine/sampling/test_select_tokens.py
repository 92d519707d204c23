"""Native code and torch select the same tokens."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from inference.engine.sampling import select_tokens
from inference.engine.sampling.sampler import NAN_LOGITS, BatchInvariantSampler, SampledToken, Sampler
from inference.engine.sequence import Sequence
from inference.native import sampling
from inference.native.library import OFF
from inference.sampling import Sampling
from tests.engine.generation_requests import make_request
from tests.engine.sequences import RefusingSink
from tests.native.native_setting import native_setting

WIDTH = 3_000
SHAPES = (
    Sampling(greedy=True),
    Sampling(),
    Sampling(temperature=0.6),
    Sampling(temperature=1.8),
    Sampling(temperature=0.0),
    Sampling(temperature=0.7, top_k=40, top_p=0.9),
    Sampling(temperature=1.3, top_k=7),
    Sampling(top_p=0.5),
    Sampling(min_p=0.1, temperature=1.2),
    Sampling(repetition_penalty=1.3, temperature=0.9),
    Sampling(logit_bias={5: 3.0}, top_p=0.8),
    Sampling(top_k=5, warper_order=("top_k", "temperature"), temperature=2.0),
    Sampling(typical_p=0.4),
)
Draws = Callable[[Tensor, list[Sequence]], list[SampledToken]]


@pytest.fixture
def both() -> tuple[Draws, Draws]:
    """The sampler with native code, and the sampler with torch alone."""
    if not sampling.available():
        pytest.skip("there is no native library")

    def sample(logits: Tensor, sequences: list[Sequence]) -> list[SampledToken]:
        return Sampler(WIDTH).sample_async(logits, sequences).wait()

    def sample_in_torch(logits: Tensor, sequences: list[Sequence]) -> list[SampledToken]:
        with native_setting(OFF):
            return sample(logits, sequences)

    return sample, sample_in_torch


def make_sequences(shape: Sampling, count: int, **request: object) -> list[Sequence]:
    requests = [make_request((1, 2, 3), 100, shape, seed=seed, **request) for seed in range(count)]
    return [Sequence(id, each, RefusingSink(), [1, 2, 3, 9, 4]) for id, each in enumerate(requests)]


def some_logits(rows: int, spread: float, seed: int = 0) -> Tensor:
    return torch.randn(rows, WIDTH + 8, generator=torch.Generator().manual_seed(seed)) * spread


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=("float32", "bfloat16"))
@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
def test_native_code_and_torch_select_the_same_tokens(
    both: tuple[Draws, Draws], shape: Sampling, dtype: torch.dtype
) -> None:
    for spread in (0.1, 1.0, 3.0, 9.0):
        logits = some_logits(60, spread).to(dtype)
        native_tokens, torch_tokens = (draws(logits, make_sequences(shape, 60)) for draws in both)
        assert native_tokens == torch_tokens


def test_rows_with_different_warpers_share_a_batch(both: tuple[Draws, Draws]) -> None:
    rows = [s for shape in SHAPES for s in make_sequences(shape, 4)]
    rows += make_sequences(Sampling(temperature=0.8, top_k=9), 3, logprobs=2, processed_logprobs=True)
    rows += make_sequences(Sampling(temperature=0.8), 3, logprobs=2)
    logits = some_logits(len(rows), 2.0)
    native_tokens, torch_tokens = (draws(logits, rows) for draws in both)
    assert native_tokens == torch_tokens


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=("float32", "bfloat16"))
@pytest.mark.parametrize("shape", [Sampling(), Sampling(temperature=0.6), Sampling(logit_bias={5: 3.0})])
def test_native_code_samples_rows_that_report_their_distribution(
    both: tuple[Draws, Draws], shape: Sampling, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens and logprobs are those of torch, which is not entered."""
    rows = make_sequences(shape, 12, logprobs=3, processed_logprobs=True) + make_sequences(shape, 4)
    logits = some_logits(len(rows), 2.0).to(dtype)
    native, in_torch = both
    expected = in_torch(logits, rows)
    monkeypatch.delattr(select_tokens, "_select_by_torch")
    assert native(logits, rows) == expected and expected[0].logprob is not None


def test_native_code_and_torch_report_the_same_failures(both: tuple[Draws, Draws]) -> None:
    logits = some_logits(6, 1.0)
    logits[1, 3], logits[2, WIDTH - 1], logits[4, 7] = float("nan"), float("inf"), float("-inf")
    for shape in SHAPES:
        for draws in both:
            assert [c.id == NAN_LOGITS for c in draws(logits, make_sequences(shape, 6))] == [0, 1, 1, 0, 0, 0]


def test_tokens_too_close_for_native_code_are_selected_by_torch(both: tuple[Draws, Draws]) -> None:
    rows = make_sequences(Sampling(temperature=1e-12), 5)
    native_tokens, torch_tokens = (draws(torch.ones(5, WIDTH), rows) for draws in both)
    assert native_tokens == torch_tokens


def test_a_batch_invariant_sampler_samples_each_row_bit_for_bit_as_if_alone(
    both: tuple[Draws, Draws],
) -> None:
    rows = [s for shape in SHAPES for s in (*make_sequences(shape, 2), *make_sequences(shape, 1, logprobs=3))]
    logits, sampler = some_logits(len(rows), 2.0).bfloat16(), BatchInvariantSampler(WIDTH)
    alone = [sampler.sample_async(logits[place : place + 1], [s]).wait()[0] for place, s in enumerate(rows)]
    assert sampler.sample_async(logits, rows).wait() == alone
    assert [choice.logprob is not None for choice in alone] == [s.request.logprobs is not None for s in rows]
