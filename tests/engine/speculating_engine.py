"""Engines with and without drafts, and their answers."""

import random

import torch
from transformers import PreTrainedModel

from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.engine.sampling.sampler import Sampler
from inference.engine.step_output import StepOutput
from inference.model.runner_selection.requirements import RunnerLimits
from inference.model.runner_selection.select_runner import select_runner
from inference.sampling import Sampling
from inference.types import GenerationRequest
from tests.engine.engine_probe import EngineProbe
from tests.engine.generation_requests import make_request
from tests.tiny_models.families import VOCAB

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
    runner = select_runner(
        model, RunnerLimits(max_sequences=ROWS, context=80, kv_memory_bytes=1 << 24)
    ).runner
    return Engine(runner, Sampler(VOCAB), EngineOptions(max_batch_tokens=48, max_queued_tokens=10_000))


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
