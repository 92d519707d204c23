"""The compiled sampling kernels on a GPU: the tokens of torch, and no wait for the device."""

from collections.abc import Callable

import pytest
import torch

from inference.engine.sampling import triton_sampling
from inference.engine.sampling.sampling_plan import group_rows
from inference.engine.sampling.select_tokens import SelectedTokens, select_tokens, to_samplable
from inference.engine.sequence import Sequence
from inference.sampling import Sampling
from tests.engine.sequences import make_sequence

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

DEVICE = torch.device("cuda", 0)
LLAMA_VOCAB = 128_256
WITH_KERNELS = (
    Sampling(temperature=0.8),
    Sampling(top_k=50),
    Sampling(top_p=0.9),
    Sampling(min_p=0.05),
    Sampling(temperature=0.8, top_k=50, top_p=0.9, min_p=0.05),
)
SAMPLINGS = (
    Sampling(greedy=True),
    *WITH_KERNELS,
    Sampling(typical_p=0.5),
    Sampling(top_k=9, warper_order=("top_k", "temperature"), temperature=2.0),
)


def random_logits(rows: int, spread: float = 3.0) -> torch.Tensor:
    generator = torch.Generator(DEVICE).manual_seed(1)
    return torch.randn(rows, LLAMA_VOCAB, device=DEVICE, generator=generator).mul_(spread).bfloat16()


def sequences_of(sampling: Sampling, count: int) -> list[Sequence]:
    return [make_sequence([1, 2], [3], sampling, seed=seed) for seed in range(count)]


def select(logits: torch.Tensor, sequences: list[Sequence]) -> SelectedTokens:
    return select_tokens(logits, sequences, group_rows(sequences))[0]


@pytest.fixture
def without_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[torch.Tensor, list[Sequence]], SelectedTokens]:
    """select_tokens in torch alone."""

    def select_by_torch(logits: torch.Tensor, sequences: list[Sequence]) -> SelectedTokens:
        with monkeypatch.context() as patched:
            patched.setattr(triton_sampling, "is_verified", lambda *layout: False)
            return select(to_samplable(logits), sequences)

    return select_by_torch


@pytest.mark.parametrize("dtype", triton_sampling.DTYPES, ids=str)
@pytest.mark.parametrize("vocab", [320, 32_000, 50_257, LLAMA_VOCAB, 262_144])
@pytest.mark.parametrize("is_aligned", [True, False], ids=["aligned", "unaligned"])
def test_the_kernels_agree_with_torch(vocab: int, dtype: torch.dtype, is_aligned: bool) -> None:
    logits, rows = triton_sampling._random_logits(DEVICE, dtype, vocab, is_aligned)
    with torch.inference_mode():
        triton_sampling._verify(logits, rows)  # raises ArithmeticError


@torch.inference_mode()
def test_rows_with_different_warpers_share_a_step(
    without_kernels: Callable[[torch.Tensor, list[Sequence]], SelectedTokens],
) -> None:
    sequences = [s for sampling in SAMPLINGS for s in sequences_of(sampling, 8)]
    logits = random_logits(len(sequences))
    assert triton_sampling.supports(logits) and to_samplable(logits) is logits
    selected, expected = select(logits, sequences), without_kernels(logits, sequences)
    assert selected.token_ids.tolist() == expected.token_ids.tolist()
    assert torch.allclose(selected.max_values, expected.max_values, rtol=1e-5, atol=1e-5)


@torch.inference_mode()
def test_sampling_does_not_wait_for_the_device() -> None:
    sequences = [s for sampling in SAMPLINGS[:-2] for s in sequences_of(sampling, 3)]
    logits = random_logits(len(sequences))
    select(logits, sequences)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        select(logits, sequences)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@torch.inference_mode()
def test_a_row_is_sampled_as_if_alone() -> None:
    sequences = [s for sampling in WITH_KERNELS for s in sequences_of(sampling, 4)]
    logits = random_logits(len(sequences))
    alone = [select(logits[i : i + 1], [s]).token_ids for i, s in enumerate(sequences)]
    assert select(logits, sequences).token_ids.tolist() == torch.cat(alone).tolist()
