"""Real models answer the same with drafts as without: greedy and sampled, alone and in company."""

import random

import pytest
import torch
from transformers import PreTrainedModel

from inference.engine.engine import Engine
from inference.engine.sampler import Sampler
from inference.engine.sequence import Record, Task
from inference.engine.speculate import Speculator
from inference.model import fit
from inference.sampling import Sampling
from tests.engine.prophet import Told
from tests.families import VOCAB, tiny

FAST = ("llama", "mistral", "gpt_neo", "bloom", "openai-gpt")
SLOW = ("gemma2", "gpt2", "falcon", "mixtral", "gpt_bigcode")
NEW = 24
ROWS = 6
SAMPLINGS = (
    Sampling(greedy=True),
    Sampling(temperature=0.2),
    Sampling(temperature=0.7, top_k=8, repetition=1.05),
    Sampling(greedy=True, no_repeat_ngram=6, frequency=0.05),
)


class Ear:
    """An outlet that joins its records."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.records = 0

    def put(self, record: Record) -> None:
        assert record.error is None, record.error
        self.ids += record.ids
        self.logprobs += record.logprobs
        self.records += bool(record.ids)


def tasks() -> list[Task]:
    """Prompts that repeat themselves and such that do not, of many lengths, each sampled in its own way."""
    chance = random.Random(11)
    made = []
    for number in range(8):
        period = chance.choices(range(3, VOCAB), k=chance.randint(2, 9))
        prompt = (period * 9)[: chance.randint(4, 30)] if number % 3 else period
        sampling = SAMPLINGS[number % len(SAMPLINGS)]
        made.append(Task(tuple(prompt), NEW, sampling, ends=frozenset({2}), seed=number, logprobs=0))
    return made


def engine(model: PreTrainedModel) -> Engine:
    runner = fit.choose(model, max_rows=ROWS, context=80, kv_bytes=1 << 24).runner
    return Engine(runner, Sampler(VOCAB), max_batch_tokens=48, max_queued_tokens=10_000)


def answers(served: Engine, asked: list[Task], chance: random.Random | None = None) -> list[Ear]:
    """What they are told, one after the other; with `chance`, together, joining and preempted by it."""
    ears = [Ear() for _ in asked]
    with torch.inference_mode():
        for task, ear in zip(asked, ears, strict=True):
            served.submit([task], [ear])
            while served.step() and (chance is None or chance.random() < 0.7):
                running = served.loop.scheduler.running
                if chance and running and chance.random() < 0.05:
                    served.loop.scheduler.preempt(chance.choice(running))
        while served.step():
            served.loop.seating.check()
    return ears


@pytest.mark.parametrize("family", [*FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_drafts_change_no_answer_of_a_family_alone_or_in_company(family: str) -> None:
    served = engine(tiny(family))
    plain = answers(served, tasks())
    known = Told(served.loop.seating, {seed: ear.ids for seed, ear in enumerate(plain)})
    for speculator, chance in (
        (Speculator(served.loop.seating, 8), None),
        (known, None),
        (known, random.Random(family)),
    ):
        served.loop.speculator = speculator
        drafted = answers(served, tasks(), chance)
        assert [ear.ids for ear in drafted] == [ear.ids for ear in plain]
        for one, other in zip(drafted, plain, strict=True):
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    assert sum(ear.records for ear in drafted) < sum(ear.records for ear in plain) / 2
    assert 0 < served.stats().accepted_tokens < served.stats().drafted_tokens


def test_a_model_that_repeats_itself_has_its_drafts_accepted() -> None:
    served = engine(tiny("llama"))
    served.loop.speculator = Speculator(served.loop.seating, 8)
    (ear,) = answers(served, [Task((5, 6, 7), 60, Sampling(greedy=True, allowed=frozenset({5, 6, 7})))])
    assert len(ear.ids) == 60 and ear.records < 30
    assert served.stats().accepted_tokens == 60 - ear.records
