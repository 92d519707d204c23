"""Native code and torch find the same tokens: which of them draws is a matter of speed."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from inference.engine.lone import LoneSampler
from inference.engine.sampler import BROKEN, Choice, Sampler
from inference.engine.sequence import Sequence, Task
from inference.native import draw
from inference.native.library import OFF, SETTING, library
from inference.sampling import Sampling

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
    Sampling(repetition=1.3, temperature=0.9),
    Sampling(bias={5: 3.0}, top_p=0.8),
    Sampling(top_k=5, order=("top_k", "temperature"), temperature=2.0),
    Sampling(typical_p=0.4),
)
Draws = Callable[[Tensor, list[Sequence]], list[Choice]]


class Nowhere:
    def put(self, record: object) -> None:
        raise AssertionError("nothing is sent in these tests")


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Draws, Draws]]:
    """The sampler with native code, and without."""
    if not draw.available():
        pytest.skip("there is no native library")

    def plainly(logits: Tensor, sequences: list[Sequence]) -> list[Choice]:
        with monkeypatch.context() as patched:
            patched.setenv(SETTING, OFF)
            forget()
            made = Sampler(WIDTH).sample(logits, sequences)
        forget()
        return made

    yield Sampler(WIDTH).sample, plainly
    forget()


def forget() -> None:
    library.cache_clear()
    draw.available.cache_clear()


def sequences(shape: Sampling, count: int, **task: object) -> list[Sequence]:
    tasks = [Task((1, 2, 3), 100, shape, seed=seed, **task) for seed in range(count)]
    return [Sequence(id, each, Nowhere(), [1, 2, 3, 9, 4]) for id, each in enumerate(tasks)]


def some(rows: int, spread: float, seed: int = 0) -> Tensor:
    return torch.randn(rows, WIDTH + 8, generator=torch.Generator().manual_seed(seed)) * spread


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=("float32", "bfloat16"))
@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
def test_both_ways_choose_the_same_tokens(
    both: tuple[Draws, Draws], shape: Sampling, dtype: torch.dtype
) -> None:
    for spread in (0.1, 1.0, 3.0, 9.0):
        logits = some(60, spread).to(dtype)
        natively, plainly = (draws(logits, sequences(shape, 60)) for draws in both)
        assert natively == plainly


def test_those_that_ask_for_different_things_do_so_side_by_side(both: tuple[Draws, Draws]) -> None:
    rows = [s for shape in SHAPES for s in sequences(shape, 4)]
    rows += sequences(Sampling(temperature=0.8, top_k=9), 3, logprobs=2, warped=True)
    rows += sequences(Sampling(temperature=0.8), 3, logprobs=2)
    logits = some(len(rows), 2.0)
    natively, plainly = (draws(logits, rows) for draws in both)
    assert natively == plainly


def test_both_ways_tell_what_is_broken(both: tuple[Draws, Draws]) -> None:
    logits = some(6, 1.0)
    logits[1, 3], logits[2, WIDTH - 1], logits[4, 7] = float("nan"), float("inf"), float("-inf")
    for shape in SHAPES:
        for draws in both:
            assert [c.id == BROKEN for c in draws(logits, sequences(shape, 6))] == [0, 1, 1, 0, 0, 0]


def test_tokens_that_noise_cannot_tell_apart_are_drawn_all_the_same(both: tuple[Draws, Draws]) -> None:
    rows = sequences(Sampling(temperature=1e-12), 5)
    natively, plainly = (draws(torch.ones(5, WIDTH), rows) for draws in both)
    assert natively == plainly


def test_a_lone_sampler_draws_each_row_to_the_last_bit_as_if_alone(both: tuple[Draws, Draws]) -> None:
    rows = [s for shape in SHAPES for s in (*sequences(shape, 2), *sequences(shape, 1, logprobs=3))]
    logits, sampler = some(len(rows), 2.0).bfloat16(), LoneSampler(WIDTH)
    alone = [sampler.sample(logits[place : place + 1], [s])[0] for place, s in enumerate(rows)]
    assert sampler.sample(logits, rows) == alone
    assert [choice.logprob is not None for choice in alone] == [s.task.logprobs is not None for s in rows]
