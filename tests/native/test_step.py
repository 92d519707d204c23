"""The fused step against the plain sums of the same model."""

import random
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from inference.native.build import Unbuilt
from inference.native.library import library
from inference.native.structs import Activation, Kind
from tests.native.llama import Llama, Shape

PLAIN = Shape()
BF16 = replace(PLAIN, form=Kind.BF16, kind=Kind.BF16, head_kind=Kind.BF16)
GEMMA = replace(
    PLAIN,
    after_norms=True,
    head_norms=True,
    windows=(7, 0),
    score_cap=5,
    logit_cap=3,
    embedding_scale=8,
    activation=Activation.GELU_TANH,
)
SHAPES = {
    "llama": PLAIN,
    "biases": replace(PLAIN, biases=True, activation=Activation.GELU),
    "gemma": GEMMA,
    "no norms before": replace(PLAIN, before_norms=False, after_norms=True),
    "no positions": replace(PLAIN, rotary=0),
    "part of a head turned": replace(PLAIN, rotary=20),
    "one group": replace(PLAIN, heads=6, groups=1, head=64, rotary=64),
    "a group each": replace(PLAIN, heads=3, groups=3, head=80, rotary=80, windows=(70, 1)),
    "wide heads": replace(PLAIN, heads=2, groups=1, head=256, rotary=256),
    "96 wide": replace(PLAIN, heads=2, groups=2, head=96, rotary=48, residual_scale=0.5),
    "odd sizes": replace(PLAIN, hidden=72, inner=104, head=18, rotary=18, heads=5, groups=5, page=5),
    "one thread": replace(PLAIN, threads=1),
    "five threads": replace(PLAIN, threads=5, page=32),
}


@pytest.fixture(autouse=True, scope="module")
def native() -> None:
    try:
        library()
    except Unbuilt as reason:
        pytest.skip(str(reason))


def ids_of(count: int, seed: int = 1) -> list[int]:
    return [random.Random(seed * 1000 + i).randrange(PLAIN.vocab) for i in range(count)]


def pages_of(llama: Llama, rows: int, seed: int = 0) -> list[list[int]]:
    """All pages, shuffled, the same number for each row."""
    pages = list(range(llama.pages))
    random.Random(seed).shuffle(pages)
    each = llama.pages // rows
    return [pages[row * each : (row + 1) * each] for row in range(rows)]


def error(found: Tensor, right: Tensor) -> float:
    """The largest, in standard deviations of what is right."""
    return float((found.double() - right).abs().max() / right.std())


@pytest.mark.parametrize("name", SHAPES)
def test_a_prompt_and_single_tokens_are_right(name: str) -> None:
    llama = Llama(SHAPES[name])
    ids, pages = ids_of(100), pages_of(llama, 1)[0]
    parts = [llama.step([(ids[:93], 0, pages)])]
    parts += [llama.step([([ids[at]], at, pages)]) for at in range(93, 100)]
    assert error(torch.cat(parts), llama.plain(ids)) < 1e-4


@pytest.mark.parametrize(
    "name, most", [("llama", 0.06), ("gemma", 0.12), ("a group each", 0.06), ("odd sizes", 0.06)]
)
def test_bfloat16_is_as_right_as_it_can_be(name: str, most: float) -> None:
    llama = Llama(replace(SHAPES[name], form=Kind.BF16, kind=Kind.BF16, head_kind=Kind.BF16))
    ids, pages = ids_of(80), pages_of(llama, 1)[0]
    assert error(llama.step([(ids, 0, pages)]), llama.plain(ids)) < most


@pytest.mark.parametrize("form", (Kind.F32, Kind.BF16))
@pytest.mark.parametrize("kind", (Kind.INT8, Kind.INT4))
def test_integers_are_close_to_what_was_packed(kind: Kind, form: Kind) -> None:
    llama = Llama(replace(PLAIN, form=form, kind=kind, head_kind=Kind.INT8, inner=104))
    ids, pages = ids_of(50), pages_of(llama, 1)[0]
    assert error(llama.step([(ids, 0, pages)]), llama.plain(ids)) < 0.15


@pytest.mark.parametrize("shape", (PLAIN, BF16, GEMMA), ids=("f32", "bf16", "gemma"))
def test_a_token_gets_the_same_bits_alone_and_in_company(shape: Shape) -> None:
    """Whatever the parts its prompt came in, and whoever else is in the step."""
    llama, long = Llama(replace(shape, windows=(*shape.windows, 300)), pages=90), 430
    rows = [ids_of(length, seed) for seed, length in enumerate((long, 33, 300))]
    pages = pages_of(llama, len(rows))
    alone = [llama.step([(ids, 0, own)]) for ids, own in zip(rows, pages, strict=True)]
    for seed in range(3):
        together = walked(llama, rows, pages_of(llama, len(rows), seed), random.Random(seed))
        for one, other in zip(alone, together, strict=True):
            assert torch.equal(one, other)


def walked(
    llama: Llama, rows: list[list[int]], pages: list[list[int]], chance: random.Random
) -> list[Tensor]:
    """The logits of each row, in steps that take more or less of some rows at a time."""
    taken, found = [0] * len(rows), [[] for _ in rows]
    while any(taken[r] < len(rows[r]) for r in range(len(rows))):
        chosen = [r for r in range(len(rows)) if taken[r] < len(rows[r]) and chance.random() < 0.7]
        counts = [min(chance.choice((1, 1, 2, 5, 40, 130)), len(rows[r]) - taken[r]) for r in chosen]
        if not chosen:
            continue
        parts = [
            (rows[r][taken[r] : taken[r] + n], taken[r], pages[r])
            for r, n in zip(chosen, counts, strict=True)
        ]
        logits = llama.step(parts).split(counts)
        for r, n, part in zip(chosen, counts, logits, strict=True):
            taken[r] += n
            found[r].append(part)
    return [torch.cat(parts) for parts in found]


def test_only_wanted_logits_are_written() -> None:
    llama = Llama(PLAIN)
    ids, pages = ids_of(70), pages_of(llama, 2)
    every = llama.step([(ids, 0, pages[0]), (ids[:5], 0, pages[1])])
    some = llama.step([(ids, 0, pages[0]), (ids[:5], 0, pages[1])], want=(3, 69, 74))
    assert torch.equal(some, every[[3, 69, 74]])
    assert llama.step([(ids, 0, pages[0])], want=()).shape == (0, PLAIN.vocab)


def test_the_number_of_threads_changes_no_bit() -> None:
    ids = ids_of(300)
    found = []
    for threads in (1, 2, 7):
        llama = Llama(replace(BF16, threads=threads))
        pages = pages_of(llama, 1)[0]
        found += [llama.step([(ids, 0, pages)]), llama.step([([5], 300, pages)])]
    assert torch.equal(found[0], found[2]) and torch.equal(found[0], found[4])
    assert torch.equal(found[1], found[3]) and torch.equal(found[1], found[5])
