"""Engines of models/demo, and a runner whose rows mix, which the selftest has to notice."""

from pathlib import Path

import torch

from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.engine.sampling.sampler import Sampler
from inference.model.batch import Batch, Runner

DEMO = Path(__file__).parent.parent.parent / "models" / "demo"


class Mixing:
    """A runner that adds a share of the last row's logits to the first row's."""

    def __init__(self, runner: Runner, share: float) -> None:
        self.runner, self.share = runner, share

    def __getattr__(self, name: str) -> object:
        return getattr(self.runner, name)

    def forward(self, batch: Batch) -> torch.Tensor:
        logits = self.runner.forward(batch)
        if len(batch.rows) > 1 and len(logits) > 1:
            logits[0] += self.share * logits[-1]
        return logits


def engine(runner: Runner, vocab: int) -> Engine:
    return Engine(runner, Sampler(vocab), EngineOptions(max_batch_tokens=256, max_queued_tokens=100_000))
