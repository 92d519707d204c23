"""Every family in the whole engine: the tokens of transformers' generate, alone and together with others."""

import random
from collections.abc import Sequence

import pytest
import torch
from transformers import PreTrainedModel

from inference.engine.engine import Engine
from inference.engine.sampling.sampler import Sampler
from inference.engine.sequence import StepOutput
from inference.model import select_runner
from inference.sampling import Sampling
from tests.families import FAMILIES, LLAMAS, UNCACHED, VOCAB, needs_fused, tiny
from tests.generation_requests import make_request

FAST = ("llama", "mistral", "gpt_neo", "bloom", "jamba", "t5", "openai-gpt")
GREEDY = Sampling(greedy=True)
NEW = 12


class AnswerCollector:
    """An OutputSink that collects token ids and the finish reason."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.reason = ""

    def put(self, output: StepOutput) -> None:
        assert output.error is None, output.error
        self.ids += output.token_ids
        self.reason = output.finish_reason or self.reason


def families() -> list[object]:
    slow = pytest.mark.slow
    return [pytest.param(name, marks=() if name in FAST else slow) for name in (*FAMILIES, *UNCACHED)]


def prompts() -> list[list[int]]:
    chance = random.Random(3)
    shared = [chance.randint(3, VOCAB - 1) for _ in range(20)]
    own = [[chance.randint(3, VOCAB - 1) for _ in range(length)] for length in (3, 14, 31, 1, 8, 25)]
    return [*own, shared + own[0], shared + own[4]]


def generate_reference(model: PreTrainedModel, prompt: list[int]) -> list[int]:
    """The greedy answer of transformers, without a cache if the model cannot use one."""
    limits = {"max_new_tokens": NEW, "min_new_tokens": NEW}
    prompt_ids = torch.tensor([prompt], device=model.device)
    with torch.inference_mode():
        ids = model.generate(prompt_ids, do_sample=False, eos_token_id=None, **limits)
    return ids[0, -NEW:].tolist()


def engine(model: PreTrainedModel, kinds: Sequence[str] = select_runner.RUNNERS) -> Engine:
    runner = select_runner.select_runner(
        model, max_sequences=4, context=64, kv_memory_bytes=1 << 24, allowed_runners=kinds
    ).runner
    return Engine(runner, Sampler(VOCAB), max_batch_tokens=16, max_queued_tokens=10_000)


def submit(served: Engine, prompt: list[int]) -> AnswerCollector:
    collector = AnswerCollector()
    collector.id = served.submit([make_request(tuple(prompt), max_tokens=NEW, sampling=GREEDY)], [collector])[
        0
    ]
    return collector


def run_until_idle(served: Engine) -> None:
    while served.step():
        pass


@pytest.mark.parametrize("family", families())
def test_a_family_answers_as_generate_does_alone_and_with_others(family: str) -> None:
    model = tiny(family)
    expected = [generate_reference(model, prompt) for prompt in prompts()]
    compare(engine(model), expected)


@needs_fused
@pytest.mark.parametrize("family", LLAMAS)
def test_a_family_answers_the_same_in_the_fused_runner(family: str) -> None:
    model = tiny(family)
    expected = [generate_reference(model, prompt) for prompt in prompts()]
    compare(engine(model, kinds=("fused",)), expected)


def compare(served: Engine, expected: list[list[int]]) -> None:
    """Runs all prompts alone, then together with others that join and are cancelled."""
    alone = []
    for prompt in prompts():
        alone.append(submit(served, prompt))
        run_until_idle(served)
    assert [collector.ids for collector in alone] == expected

    together, cancelled = [], []
    for number, prompt in enumerate(prompts()):
        together.append(submit(served, prompt))
        cancelled.append(submit(served, prompt[::-1]))
        for _ in range(3):
            served.step()
        if number % 2:
            served.abort([cancelled[number - 1].id])
    run_until_idle(served)
    assert [collector.ids for collector in together] == expected
    assert {collector.reason for collector in together} == {"length"}
    assert not served.stats().running + served.stats().waiting
