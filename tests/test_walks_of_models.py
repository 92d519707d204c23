"""Random walks over an engine with real models, tiny ones: whatever happens, every seat is accounted for, and
every answer is what the model answers alone, by its plain forward.

Always the same few walks; `WALKS=500 pytest tests/test_walks_of_models.py` takes so many others.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st

from inference.engine.engine import Engine
from inference.engine.sampler import Sampler
from inference.model.batch import Runner
from inference.model.fused.reader import read
from inference.model.fused.runner import FusedRunner
from inference.model.packed.runner import PackedRunner
from inference.model.slots.runner import SlotRunner
from inference.model.slots.sources import SourceRunner
from inference.sampling import Sampling
from tests.families import VOCAB, tiny
from tests.model.fused.llamas import held
from tests.walks.machine import Walk
from tests.walks.plain import Faulty, Plain
from tests.walks.seen import everything, walked
from tests.walks.seer import world_of
from tests.walks.world import World

CONTEXT = 96
ROWS = 4
AREA = 144  # tokens
EVENTS = ("length", "stop", "error", "deadline", "preemptions", "squeezed", "shortages")
WALKS = 4  # of a model
GREEDY = Sampling(greedy=True)
TEXTS = tuple(tuple(random.Random(text).choices(range(3, VOCAB), k=48)) for text in range(2))


def slots(name: str, seat: type[SlotRunner] = SlotRunner, resumes: bool = True) -> Runner:
    runner = seat(tiny(name), max_rows=ROWS, context=CONTEXT, area=AREA, resumes=resumes)
    runner.step = 16  # columns: rows of fewer than they come to need
    return runner


def packed(name: str, overlaps: bool = False) -> Runner:
    return PackedRunner(tiny(name), max_rows=ROWS, context=CONTEXT, area=AREA, size=4, overlaps=overlaps)


def fused(name: str) -> Runner:
    model = held(name)
    return FusedRunner(model, read(model, CONTEXT), max_rows=ROWS, context=CONTEXT, area=AREA)


MADE: dict[str, Callable[[], Runner]] = {
    "llama": lambda: slots("llama"),
    "gemma2": lambda: slots("gemma2"),
    "gpt2": lambda: slots("gpt2"),
    "lfm2": lambda: slots("lfm2", resumes=False),
    "t5": lambda: slots("t5", SourceRunner),
    "llama packed": lambda: packed("llama"),
    "gemma2 packed": lambda: packed("gemma2"),
    "gpt2 packed": lambda: packed("gpt2"),
    "llama packed early": lambda: packed("llama", overlaps=True),
    "gemma2 packed early": lambda: packed("gemma2", overlaps=True),
    "gemma2 fused": lambda: fused("gemma2"),
}


class Prompt(NamedTuple):
    """So many tokens of a text, and a few of the other one behind."""

    text: int
    length: int
    tail: int

    @property
    def ids(self) -> tuple[int, ...]:
        return (*TEXTS[self.text][: self.length], *TEXTS[1 - self.text][: self.tail])


class Options(NamedTuple):
    ends: tuple[int, ...]
    logprobs: int | None
    prompt_logprobs: int | None

    @property
    def fields(self) -> dict[str, Any]:
        """Of a Task."""
        return self._asdict() | {"sampling": GREEDY, "ends": frozenset(self.ends)}


class ModelWalk(Walk):
    prompts = st.builds(
        Prompt, text=st.integers(0, 1), length=st.sampled_from((0, 20, 40)), tail=st.sampled_from((1, 7))
    )
    lengths = st.sampled_from((24, 12, 1, 0))
    tails = st.just(())
    usual = MappingProxyType({"sampling": GREEDY, "logprobs": 0})
    options = st.builds(
        Options,
        ends=st.sampled_from(((), tuple(range(3, 20)))),
        logprobs=st.sampled_from((None, 0)),
        prompt_logprobs=st.sampled_from((None, 0)),
    )


@cache
def served(name: str) -> tuple[Faulty, Plain]:
    """One seat for all walks: what it holds of one is none of the next one's business."""
    runner = MADE[name]()
    right = Plain(runner.model, min(CONTEXT, runner.area), runner.start_ids if runner.encodes else None)
    return Faulty(runner), right


def world(name: str, seen: Counter[str]) -> World:
    runner, right = served(name)
    engine = Engine(runner, Sampler(VOCAB), max_batch_tokens=24, max_queued_tokens=10_000)
    return world_of(engine, right, seen, foreseen=runner.resumes and not runner.encodes)


@pytest.fixture(scope="module")
def seen() -> Iterator[Counter[str]]:
    """What came to pass in all walks of all models: at the end, everything that could."""
    yield from everything(EVENTS, len(MADE))


@pytest.mark.parametrize("name", MADE)
def test_walks_lose_nothing_and_change_no_answer_of_a_model(name: str, seen: Counter[str]) -> None:
    runner, _ = served(name)
    resumes = runner.resumes and not runner.encodes
    walked(
        WALKS,
        name,
        lambda here: ModelWalk(world(name, here)),
        seen,
        shares=resumes,
        drafts=resumes,
        early=runner.overlaps,
    )
