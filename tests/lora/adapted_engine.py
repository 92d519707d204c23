"""An engine over a tiny model whose rows may have adapters."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.engine.sampling.sampler import Sampler
from inference.lora.load import load_adapter
from inference.model.lora.runner import AdapterRunner
from inference.model.quantization.schemes import NONE, Quantization
from inference.model.runner_selection.requirements import RUNNERS, RunnerLimits, RunnerRules
from inference.model.runner_selection.select_runner import select_runner
from inference.sampling import Sampling
from tests.engine.engine_answers import AnswerCollector, run_until_idle
from tests.engine.generation_requests import make_request
from tests.lora.peft_adapters import NEW
from tests.tiny_models.families import VOCAB

GREEDY = Sampling(greedy=True)
MAX_RANK = 64


class AdaptedEngine:
    """An engine, and the adapters of its model."""

    def __init__(
        self,
        model: PreTrainedModel,
        kinds: Sequence[str] = RUNNERS,
        speculate: int = 0,
        max_batch_total_tokens: int | None = None,
        deterministic: bool = False,
        timed: bool = True,
        quantize: str = NONE,
    ) -> None:
        limits = RunnerLimits(
            max_sequences=6,
            context=64,
            kv_memory_bytes=1 << 24,
            max_batch_total_tokens=max_batch_total_tokens,
        )
        rules = RunnerRules(kinds, deterministic, timed=timed)
        selected = select_runner(model, limits, rules, Quantization(quantize))
        self.model = model
        self.runner = AdapterRunner(model, selected.runner, deterministic)
        self.engine = Engine(
            self.runner,
            Sampler(VOCAB),
            EngineOptions(max_batch_tokens=16, max_queued_tokens=10_000, speculate=speculate),
        )

    def load(self, folder: Path, number: int) -> None:
        with torch.inference_mode():
            for _ in load_adapter(self.model, str(folder), number, MAX_RANK):
                pass

    def submit(self, prompt: Sequence[int], adapter_number: int = 0, **fields: Any) -> AnswerCollector:
        collector = AnswerCollector()
        request = make_request(
            prompt, max_tokens=NEW, sampling=GREEDY, adapter_number=adapter_number, **fields
        )
        collector.id = self.engine.submit([request], [collector])[0]
        return collector

    def run(self) -> None:
        run_until_idle(self.engine)


def prompts() -> list[list[int]]:
    chance = random.Random(3)
    return [[chance.randint(3, VOCAB - 1) for _ in range(length)] for length in (3, 31, 1)]
