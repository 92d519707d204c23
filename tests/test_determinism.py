"""To the last bit: what runs beside an answer, and what ran before it, changes nothing of it.

In half precision under DETERMINISTIC, logprobs and all; in float32 always, as far as the ids go.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
import torch

from inference.engine.engine import Engine
from inference.engine.lone import LoneSampler
from inference.engine.sampler import Sampler
from inference.engine.sequence import Record, Score, Task
from inference.engine.speculate import Speculator
from inference.model import fit
from inference.model.seats import STEADY
from inference.native.build import Unbuilt
from inference.native.library import SETTING, library
from inference.sampling import Sampling
from tests.families import VOCAB, tiny

# Of those whose last bits do depend on the neighbours where nothing is done about it: not all tiny ones' do.
FIVE = ("llama", "mixtral", "gpt2", "jamba", "t5")
PIECE = 16
NEW = 12
SAMPLINGS = (
    Sampling(greedy=True),
    Sampling(temperature=0.7, top_p=0.9),
    Sampling(greedy=True, repetition=1.1),
    Sampling(temperature=1.3, typical_p=0.8),
)


@dataclass
class Answer:
    """An outlet that remembers what it was given, but for how long it took and what was reused."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    prompt: list[Score] = field(default_factory=list)
    reused: int = 0

    def put(self, record: Record) -> None:
        assert record.error is None, record.error
        self.ids += record.ids
        self.logprobs += record.logprobs
        self.prompt += record.prompt
        self.reused += record.cached or 0

    @property
    def told(self) -> tuple[object, ...]:
        return self.ids, self.logprobs, self.prompt


def tasks() -> list[Task]:
    """Prompts of many lengths, half of them with a common beginning; one wants its prompt's logprobs."""
    chance = random.Random(5)
    common = chance.choices(range(3, VOCAB), k=40)
    made = []
    for number, length in enumerate((3, 50, 17, 16, 33, 5, 24, 41)):
        prompt = chance.choices(range(3, VOCAB), k=length)
        if number % 2:
            prompt = (common + prompt)[: 40 + length // 4]
        scored = 0 if number == 5 else None
        sampling = SAMPLINGS[number // 2 % len(SAMPLINGS)]
        told = None if number % 4 == 3 else 1  # tokens without logprobs are drawn together
        made.append(Task(tuple(prompt), NEW, sampling, seed=number, logprobs=told, prompt_logprobs=scored))
    return made


def engine(family: str, dtype: torch.dtype, deterministic: bool) -> Engine:
    """Four rows, in which three long answers have no room together; in no seat that is steady anyway."""
    model = tiny(family).to(dtype)
    kinds = [kind for kind in fit.KINDS if kind not in STEADY]
    bounds = {"max_rows": 4, "context": 80, "kv_bytes": 1 << 24, "max_area": 200}
    fitted = fit.choose(model, **bounds, alone=deterministic, kinds=kinds)
    sampler = (LoneSampler if deterministic else Sampler)(VOCAB)
    piece = PIECE if deterministic else 0
    return Engine(fitted.runner, sampler, max_batch_tokens=24, max_queued_tokens=10_000, piece=piece)


@torch.inference_mode()
def alone(served: Engine) -> list[Answer]:
    """One after the other, nothing reused."""
    answers = []
    for task in tasks():
        served.loop.scheduler.forget()
        answers.append(Answer())
        served.submit([task], [answers[-1]])
        while served.step():
            pass
    return answers


@torch.inference_mode()
def in_company(served: Engine, chance: random.Random) -> list[Answer]:
    """Together, joining by chance, preempted by chance, beside others that are cancelled by chance."""
    answers = []
    for task in tasks():
        answers.append(Answer())
        served.submit([task], [answers[-1]])
        left = served.submit([Task(task.ids[::-1] if chance.random() < 0.5 else task.ids, 30)], [Answer()])
        while served.step() and chance.random() < 0.8:
            running = served.loop.scheduler.running
            if running and chance.random() < 0.1:
                served.loop.scheduler.preempt(chance.choice(running))
        served.cancel(left)
    while served.step():
        served.loop.seating.check()
    return answers


@pytest.mark.parametrize("family", FIVE)
def test_in_bfloat16_no_answer_depends_on_its_neighbours_where_that_is_asked_for(family: str) -> None:
    served = engine(family, torch.bfloat16, deterministic=True)
    by_itself, beside = alone(served), in_company(served, random.Random(7))
    assert [answer.told for answer in beside] == [answer.told for answer in by_itself]
    assert served.stats().preemptions > 3
    if family not in ("jamba", "t5"):
        assert sum(answer.reused for answer in beside) >= 2 * PIECE > 0 == by_itself[0].reused


def test_where_it_is_not_asked_for_the_same_walk_sees_a_difference() -> None:
    served = engine("mixtral", torch.bfloat16, deterministic=False)
    by_itself, beside = alone(served), in_company(served, random.Random(7))
    assert [answer.told for answer in beside] != [answer.told for answer in by_itself]


@pytest.fixture(params=("plain", "avx2", "avx512", "emulated", "amx"))
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A level of processors that native code is made for; skipped where this one cannot run it."""
    monkeypatch.setenv(SETTING, request.param)
    library.cache_clear()
    try:
        library()
    except Unbuilt as reason:
        pytest.skip(str(reason))
    yield request.param
    library.cache_clear()


@pytest.mark.parametrize("quantise", ("none", "int8"))
@pytest.mark.parametrize("family", ("llama", "gemma2", "qwen3"))
def test_in_the_fused_seat_it_sees_none(level: str, family: str, quantise: str) -> None:
    """Prompts are computed in whatever pieces there is room for, rows beside each other, drafts tried."""
    model = tiny(family).bfloat16()
    bounds = {"max_rows": 4, "context": 80, "kv_bytes": 1 << 24, "max_area": 200}
    fitted = fit.choose(model, **bounds, alone=True, kinds=STEADY, quantise=quantise)
    served = Engine(fitted.runner, LoneSampler(VOCAB), max_batch_tokens=24, max_queued_tokens=10_000)
    by_itself, beside = alone(served), in_company(served, random.Random(7))
    assert [answer.told for answer in beside] == [answer.told for answer in by_itself]
    assert served.stats().preemptions > 3
    assert sum(answer.reused for answer in beside) >= 2 * PIECE > 0 == by_itself[0].reused
    served.loop.speculator = Speculator(served.loop.seating, 8)
    guessed = in_company(served, random.Random(7))
    assert [answer.told for answer in guessed] == [answer.told for answer in by_itself]


@pytest.mark.parametrize("family", FIVE)
def test_in_float32_the_tokens_are_the_same_with_drafts_and_without(family: str) -> None:
    served = engine(family, torch.float32, deterministic=False)
    by_itself, beside = alone(served), in_company(served, random.Random(7))
    assert [answer.ids for answer in beside] == [answer.ids for answer in by_itself]
    if served.loop.runner.resumes and not served.loop.runner.encodes:
        served.loop.speculator = Speculator(served.loop.seating, 8)
        guessed = in_company(served, random.Random(7))
        assert [answer.ids for answer in guessed] == [answer.ids for answer in by_itself]
