"""transformers' own `generate`, in static batches: the requests in order of arrival, so many at a time.

A batch is padded on the left to its longest prompt and goes on until its longest answer is done; what a row
computes beyond its own answer is not counted. The next batch begins when the last is through.
"""

import time

import torch
from transformers import GenerationConfig, LogitsProcessorList

from scripts.bench import memory
from scripts.bench.load import Load, Run
from scripts.bench.models import build
from scripts.bench.terms import Terms

PAD = 0


class Generate:
    """A Player, for greedy requests. `batch`: requests computed together, at most."""

    def __init__(self, terms: Terms, batch: int) -> None:
        terms.prepare()
        self.terms, self.batch = terms, batch
        self.model = build(terms.model, terms.dtype, terms.device)
        self.about = f"{self.model.config._attn_implementation}, batches of {batch}"

    def run(self, load: Load) -> Run:
        memory.reset(self.terms.device)
        began, worked = time.perf_counter(), time.process_time()
        stamps: list[list[float]] = []
        for first in range(0, len(load), self.batch):
            stamps += self._batch(load[first : first + self.batch], began)
        seconds = time.perf_counter() - began
        worked = time.process_time() - worked
        return Run(seconds, stamps, sum(map(len, stamps)), worked, memory.peak_mb(self.terms.device))

    def stop(self) -> None:
        del self.model

    @torch.inference_mode()
    def _batch(self, load: Load, began: float) -> list[list[float]]:
        """When each answer's tokens were known."""
        steps: list[float] = []

        def stamp(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            steps.append(time.perf_counter() - began)
            return scores

        ids, mask = padded(load, self.terms.device)
        settings = GenerationConfig(
            max_new_tokens=max(request.tokens for request in load),
            do_sample=False,
            pad_token_id=PAD,
            eos_token_id=None,
        )
        self.model.generation_config = settings
        told = LogitsProcessorList([stamp])
        rows = self.model.generate(input_ids=ids, attention_mask=mask, logits_processor=told)
        assert rows.shape[1] == ids.shape[1] + settings.max_new_tokens, "an answer ended early"
        return [steps[: request.tokens] for request in load]


def padded(load: Load, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The prompts (B, T), padded on the left, and which of their tokens are real (B, T)."""
    width = max(len(request.ids) for request in load)
    ids = [[PAD] * (width - len(request.ids)) + list(request.ids) for request in load]
    mask = [[0] * (width - len(request.ids)) + [1] * len(request.ids) for request in load]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)
