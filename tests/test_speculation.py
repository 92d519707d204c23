"""Real models give the same answers with and without drafts: greedy and sampled, alone and together."""

import random

import pytest
import torch
from transformers import PreTrainedModel

from inference.engine.engine import Engine
from inference.engine.sampling.sampler import Sampler
from inference.engine.sequence import StepOutput
from inference.engine.speculation.ngram_proposer import NgramProposer
from inference.model import select_runner
from inference.sampling import Sampling
from inference.types import GenerationRequest
from tests.engine.oracle_proposer import SeededOracleProposer
from tests.engine_probe import EngineProbe
from tests.families import VOCAB, tiny
from tests.generation_requests import make_request

FAST = ("llama", "mistral", "gpt_neo", "bloom", "openai-gpt")
SLOW = ("gemma2", "gpt2", "falcon", "mixtral", "gpt_bigcode")
NEW = 24
ROWS = 6
SAMPLINGS = (
    Sampling(greedy=True),
    Sampling(temperature=0.2),
    Sampling(temperature=0.7, top_k=8, repetition_penalty=1.05),
    Sampling(greedy=True, no_repeat_ngram_size=6, frequency_penalty=0.05),
)


class LogprobCollector:
    """An OutputSink that concatenates its outputs."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.num_outputs = 0

    def put(self, output: StepOutput) -> None:
        assert output.error is None, output.error
        self.ids += output.token_ids
        self.logprobs += output.logprobs
        self.num_outputs += bool(output.token_ids)


def requests() -> list[GenerationRequest]:
    """Repetitive and other prompts of many lengths, with different sampling settings."""
    chance = random.Random(11)
    task_list = []
    for number in range(8):
        period = chance.choices(range(3, VOCAB), k=chance.randint(2, 9))
        prompt = (period * 9)[: chance.randint(4, 30)] if number % 3 else period
        sampling = SAMPLINGS[number % len(SAMPLINGS)]
        task_list.append(
            make_request(tuple(prompt), NEW, sampling, stop_token_ids=frozenset({2}), seed=number, logprobs=0)
        )
    return task_list


def engine(model: PreTrainedModel) -> Engine:
    runner = select_runner.select_runner(
        model, max_sequences=ROWS, context=80, kv_memory_bytes=1 << 24
    ).runner
    return Engine(runner, Sampler(VOCAB), max_batch_tokens=48, max_queued_tokens=10_000)


def generate(
    served: Engine, task_list: list[GenerationRequest], chance: random.Random | None = None
) -> list[LogprobCollector]:
    """Runs the requests one after the other; with `chance`, together, with random joins and preemptions."""
    collectors, probe = [LogprobCollector() for _ in task_list], EngineProbe(served)
    with torch.inference_mode():
        for request, collector in zip(task_list, collectors, strict=True):
            served.submit([request], [collector])
            while served.step() and (chance is None or chance.random() < 0.7):
                if chance and probe.running and chance.random() < 0.05:
                    probe.preempt(chance.choice(probe.running))
        while served.step():
            probe.check()
    return collectors


@pytest.mark.parametrize("family", [*FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_drafts_change_no_answer_of_a_family(family: str) -> None:
    served = engine(tiny(family))
    plain = generate(served, requests())
    probe = EngineProbe(served)
    known = SeededOracleProposer(
        probe.kv_cache, {seed: collector.ids for seed, collector in enumerate(plain)}
    )
    for speculator, chance in (
        (NgramProposer(probe.kv_cache, 8), None),
        (known, None),
        (known, random.Random(family)),
    ):
        probe.set_proposer(speculator)
        drafted = generate(served, requests(), chance)
        assert [collector.ids for collector in drafted] == [collector.ids for collector in plain]
        for drafted_answer, plain_answer in zip(drafted, plain, strict=True):
            assert drafted_answer.logprobs == pytest.approx(plain_answer.logprobs, abs=1e-4)
    assert (
        sum(collector.num_outputs for collector in drafted)
        < sum(collector.num_outputs for collector in plain) / 2
    )
    assert 0 < served.stats().accepted_tokens < served.stats().drafted_tokens
    assert 0 < served.stats().drafts < served.stats().drafted_tokens


def test_most_drafts_are_accepted_if_a_model_repeats_itself() -> None:
    served = engine(tiny("llama"))
    probe = EngineProbe(served)
    probe.set_proposer(NgramProposer(probe.kv_cache, 8))
    (collector,) = generate(
        served, [make_request((5, 6, 7), 60, Sampling(greedy=True, allowed_token_ids=frozenset({5, 6, 7})))]
    )
    assert len(collector.ids) == 60 and collector.num_outputs < 30
    assert served.stats().accepted_tokens == 60 - collector.num_outputs
