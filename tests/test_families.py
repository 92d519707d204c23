"""Every family in the whole engine: the tokens of transformers' generate, alone and together with others."""

import random
from collections.abc import Sequence

import pytest
from transformers import PreTrainedModel

from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.engine.sampling.sampler import Sampler
from inference.model.runner_selection.requirements import RUNNERS, RunnerLimits, RunnerRules
from inference.model.runner_selection.select_runner import select_runner
from tests.engine.engine_answers import generate_reference, run_until_idle, submit
from tests.tiny_models.families import FAMILIES, LLAMAS, UNCACHED, VOCAB, needs_fused, tiny

FAST = ("llama", "mistral", "gpt_neo", "bloom", "jamba", "t5", "openai-gpt")


def families() -> list[object]:
    slow = pytest.mark.slow
    return [pytest.param(name, marks=() if name in FAST else slow) for name in (*FAMILIES, *UNCACHED)]


def prompts() -> list[list[int]]:
    chance = random.Random(3)
    shared = [chance.randint(3, VOCAB - 1) for _ in range(20)]
    own = [[chance.randint(3, VOCAB - 1) for _ in range(length)] for length in (3, 31, 1, 14)]
    return [*own, shared + own[0], shared + own[2]]


def engine(model: PreTrainedModel, kinds: Sequence[str] = RUNNERS) -> Engine:
    runner = select_runner(
        model, RunnerLimits(max_sequences=4, context=64, kv_memory_bytes=1 << 24), RunnerRules(kinds=kinds)
    ).runner
    return Engine(runner, Sampler(VOCAB), EngineOptions(max_batch_tokens=16, max_queued_tokens=10_000))


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
