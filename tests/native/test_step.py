"""The fused step against a plain computation of the same model."""

import random
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from inference.native.build import NativeUnavailable
from inference.native.library import library
from inference.native.structs import Activation, NativeDtype
from tests.native.llama import Llama, LlamaShape, capped

PLAIN = LlamaShape()
BF16 = replace(PLAIN, dtype=NativeDtype.BF16, kind=NativeDtype.BF16, head_kind=NativeDtype.BF16)
GEMMA = replace(
    PLAIN,
    after_norms=True,
    head_norms=True,
    windows=(7, 0),
    attn_logit_softcap=5,
    final_logit_softcap=3,
    embedding_scale=8,
    activation=Activation.GELU_TANH,
)
SHAPES = {
    "llama": PLAIN,
    "biases": replace(PLAIN, biases=True, activation=Activation.GELU),
    "gemma": GEMMA,
    "no norms before": replace(PLAIN, before_norms=False, after_norms=True),
    "no positions": replace(PLAIN, rotary=0),
    "partial rotary": replace(PLAIN, rotary=20),
    "one group": replace(PLAIN, num_heads=6, num_kv_heads=1, head_dim=64, rotary=64),
    "a group each": replace(PLAIN, num_heads=3, num_kv_heads=3, head_dim=80, rotary=80, windows=(70, 1)),
    "wide heads": replace(PLAIN, num_heads=2, num_kv_heads=1, head_dim=256, rotary=256),
    "96 wide": replace(PLAIN, num_heads=2, num_kv_heads=2, head_dim=96, rotary=48, residual_scale=0.5),
    "odd sizes": replace(
        PLAIN, hidden=72, inner=104, head_dim=18, rotary=18, num_heads=5, num_kv_heads=5, page=5
    ),
    "one thread": replace(PLAIN, threads=1),
    "five threads": replace(PLAIN, threads=5, page=32),
}


@pytest.fixture(autouse=True, scope="module")
def native() -> None:
    try:
        library()
    except NativeUnavailable as reason:
        pytest.skip(str(reason))


def ids_of(count: int, seed: int = 1) -> list[int]:
    return [random.Random(seed * 1000 + i).randrange(PLAIN.vocab) for i in range(count)]


def pages_of(llama: Llama, rows: int, seed: int = 0) -> list[list[int]]:
    """All pages, shuffled, the same number for each row."""
    pages = list(range(llama.pages))
    random.Random(seed).shuffle(pages)
    each = llama.pages // rows
    return [pages[row * each : (row + 1) * each] for row in range(rows)]


def error(result: Tensor, right: Tensor) -> float:
    """The largest error, in standard deviations of `right`."""
    return float((result.double() - right).abs().max() / right.std())


@pytest.mark.parametrize("name", SHAPES)
def test_a_prompt_and_single_tokens_are_correct(name: str) -> None:
    llama = Llama(SHAPES[name])
    ids, pages = ids_of(100), pages_of(llama, 1)[0]
    logits = [llama.step([(ids[:93], 0, pages)])]
    logits += [llama.step([([ids[at]], at, pages)]) for at in range(93, 100)]
    assert error(torch.cat(logits), llama.plain(ids)) < 1e-4


@pytest.mark.parametrize(
    "name, most", [("llama", 0.06), ("gemma", 0.12), ("a group each", 0.06), ("odd sizes", 0.06)]
)
def test_bfloat16_is_as_precise_as_its_bits_allow(name: str, most: float) -> None:
    llama = Llama(
        replace(SHAPES[name], dtype=NativeDtype.BF16, kind=NativeDtype.BF16, head_kind=NativeDtype.BF16)
    )
    ids, pages = ids_of(80), pages_of(llama, 1)[0]
    assert error(llama.step([(ids, 0, pages)]), llama.plain(ids)) < most


@pytest.mark.parametrize("dtype", (NativeDtype.F32, NativeDtype.BF16))
@pytest.mark.parametrize("kind", (NativeDtype.INT8, NativeDtype.INT4))
def test_quantized_weights_give_close_logits(kind: NativeDtype, dtype: NativeDtype) -> None:
    llama = Llama(replace(PLAIN, dtype=dtype, kind=kind, head_kind=NativeDtype.INT8, inner=104))
    ids, pages = ids_of(50), pages_of(llama, 1)[0]
    assert error(llama.step([(ids, 0, pages)]), llama.plain(ids)) < 0.15


@pytest.mark.parametrize("shape", (PLAIN, BF16, GEMMA), ids=("f32", "bf16", "gemma"))
def test_a_token_gets_the_same_bits_alone_and_in_a_batch(shape: LlamaShape) -> None:
    """However its prompt is chunked, and whichever other rows are in the step."""
    llama, long = Llama(replace(shape, windows=(*shape.windows, 300)), pages=90), 430
    rows = [ids_of(length, seed) for seed, length in enumerate((long, 33, 300))]
    pages = pages_of(llama, len(rows))
    alone = [llama.step([(ids, 0, own)]) for ids, own in zip(rows, pages, strict=True)]
    for seed in range(3):
        together = run_in_steps(llama, rows, pages_of(llama, len(rows), seed), random.Random(seed))
        for expected, logits in zip(alone, together, strict=True):
            assert torch.equal(logits, expected)


def run_in_steps(
    llama: Llama, rows: list[list[int]], pages: list[list[int]], chance: random.Random
) -> list[Tensor]:
    """The logits of each row, computed in steps that take varying numbers of tokens of some rows."""
    num_done, outputs = [0] * len(rows), [[] for _ in rows]
    while any(num_done[r] < len(rows[r]) for r in range(len(rows))):
        active = [r for r in range(len(rows)) if num_done[r] < len(rows[r]) and chance.random() < 0.7]
        counts = [min(chance.choice((1, 1, 2, 5, 40, 130)), len(rows[r]) - num_done[r]) for r in active]
        if not active:
            continue
        rows_of_step = [
            (rows[r][num_done[r] : num_done[r] + n], num_done[r], pages[r])
            for r, n in zip(active, counts, strict=True)
        ]
        logits = llama.step(rows_of_step).split(counts)
        for r, n, row_logits in zip(active, counts, logits, strict=True):
            num_done[r] += n
            outputs[r].append(row_logits)
    return [torch.cat(rows_of_step) for rows_of_step in outputs]


def test_only_requested_logits_are_written() -> None:
    llama = Llama(PLAIN)
    ids, pages = ids_of(70), pages_of(llama, 2)
    every = llama.step([(ids, 0, pages[0]), (ids[:5], 0, pages[1])])
    some = llama.step([(ids, 0, pages[0]), (ids[:5], 0, pages[1])], logits_indices=(3, 69, 74))
    assert torch.equal(some, every[[3, 69, 74]])
    assert llama.step([(ids, 0, pages[0])], logits_indices=()).shape == (0, PLAIN.vocab)


@pytest.mark.parametrize("name", SHAPES)
def test_hidden_states_are_written_together_with_some_logits(name: str) -> None:
    llama = Llama(SHAPES[name])
    ids, pages = ids_of(70), pages_of(llama, 2)
    rows = [(ids, 0, pages[0]), (ids[:5], 0, pages[1])]
    every = llama.step(rows)
    hidden = torch.full((75, SHAPES[name].hidden), torch.nan)
    assert torch.equal(llama.step(rows, (3, 69, 74), hidden), every[[3, 69, 74]])
    logits = capped(hidden.double() @ llama.lm_head.double().T, SHAPES[name].final_logit_softcap)
    torch.testing.assert_close(logits, every.double(), rtol=1e-3, atol=1e-3)
    assert llama.step(rows, (), torch.full_like(hidden, torch.nan)).shape == (0, SHAPES[name].vocab)


def test_the_number_of_threads_changes_no_bit() -> None:
    ids = ids_of(300)
    logits = []
    for threads in (1, 2, 7):
        llama = Llama(replace(BF16, threads=threads))
        pages = pages_of(llama, 1)[0]
        logits += [llama.step([(ids, 0, pages)]), llama.step([([5], 300, pages)])]
    assert torch.equal(logits[0], logits[2]) and torch.equal(logits[0], logits[4])
    assert torch.equal(logits[1], logits[3]) and torch.equal(logits[1], logits[5])
