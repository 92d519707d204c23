"""Every family through the whole engine: token for token what generate answers, alone and in company."""

import random
from collections.abc import Sequence

import pytest
import torch
from transformers import PreTrainedModel

from inference.engine.engine import Engine
from inference.engine.sampler import Sampler
from inference.engine.sequence import Record, Task
from inference.model import fit
from inference.sampling import Sampling
from tests.families import FAMILIES, LLAMAS, UNCACHED, VOCAB, tiny

FAST = ("llama", "mistral", "gpt_neo", "bloom", "jamba", "t5", "openai-gpt")
GREEDY = Sampling(greedy=True)
NEW = 20


class Ear:
    """An outlet that remembers what it was given."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.reason = ""

    def put(self, record: Record) -> None:
        assert record.error is None, record.error
        self.ids += record.ids
        self.reason = record.reason or self.reason


def families() -> list[object]:
    slow = pytest.mark.slow
    return [pytest.param(name, marks=() if name in FAST else slow) for name in (*FAMILIES, *UNCACHED)]


def prompts() -> list[list[int]]:
    chance = random.Random(3)
    shared = [chance.randint(3, VOCAB - 1) for _ in range(20)]
    own = [[chance.randint(3, VOCAB - 1) for _ in range(length)] for length in (3, 14, 31, 1, 8, 25)]
    return [*own, shared + own[0], shared + own[4]]


def generated(model: PreTrainedModel, prompt: list[int]) -> list[int]:
    """What transformers answers, greedily, uncached where it cannot cache."""
    limits = {"max_new_tokens": NEW, "min_new_tokens": NEW}
    given = torch.tensor([prompt], device=model.device)
    with torch.inference_mode():
        ids = model.generate(given, do_sample=False, eos_token_id=None, **limits)
    return ids[0, -NEW:].tolist()


def engine(model: PreTrainedModel, kinds: Sequence[str] = fit.KINDS) -> Engine:
    runner = fit.choose(model, max_rows=4, context=64, kv_bytes=1 << 24, kinds=kinds).runner
    return Engine(runner, Sampler(VOCAB), max_batch_tokens=16, max_queued_tokens=10_000)


def ask(served: Engine, prompt: list[int]) -> Ear:
    ear = Ear()
    ear.id = served.submit([Task(tuple(prompt), max_tokens=NEW, sampling=GREEDY)], [ear])[0]
    return ear


def finish(served: Engine) -> None:
    while served.step():
        pass


@pytest.mark.parametrize("family", families())
def test_a_family_answers_as_generate_does_alone_and_in_company(family: str) -> None:
    model = tiny(family)
    expected = [generated(model, prompt) for prompt in prompts()]
    compare(engine(model), expected)


@pytest.mark.parametrize("family", LLAMAS)
def test_a_family_answers_the_same_in_the_fused_seat(family: str) -> None:
    model = tiny(family)
    expected = [generated(model, prompt) for prompt in prompts()]
    compare(engine(model, kinds=("fused",)), expected)


def compare(served: Engine, expected: list[list[int]]) -> None:
    """Ask for all alone, then in a company that comes and goes."""
    alone = []
    for prompt in prompts():
        alone.append(ask(served, prompt))
        finish(served)
    assert [ear.ids for ear in alone] == expected

    together, left = [], []
    for number, prompt in enumerate(prompts()):
        together.append(ask(served, prompt))
        left.append(ask(served, prompt[::-1]))
        for _ in range(3):
            served.step()
        if number % 2:
            served.cancel([left[number - 1].id])
    finish(served)
    assert [ear.ids for ear in together] == expected
    assert {ear.reason for ear in together} == {"length"}
    assert not served.stats().running + served.stats().waiting
