"""transformers' `generate` as an engine: static batches of a fixed size, in order of arrival.

A batch is left-padded to its longest prompt and runs until its longest answer is complete; tokens beyond a
row's own answer are not counted. The next batch starts when the previous one is complete.
"""

import time

import torch
from transformers import GenerationConfig, LogitsProcessorList

from scripts.bench import memory
from scripts.bench.load import Load, Run
from scripts.bench.models import build_model
from scripts.bench.options import BenchOptions

PAD = 0


class Generate:
    """An EngineUnderTest for greedy requests. `batch_size`: most requests in a batch."""

    def __init__(self, options: BenchOptions, batch_size: int) -> None:
        options.prepare()
        self.options, self.batch_size = options, batch_size
        self.model = build_model(options.model, options.dtype, options.device)
        self.description = f"{self.model.config._attn_implementation}, batches of {batch_size}"

    def run(self, load: Load) -> Run:
        memory.reset(self.options.device)
        start_s, cpu_s = time.perf_counter(), time.process_time()
        token_times: list[list[float]] = []
        for first in range(0, len(load), self.batch_size):
            token_times += self._run_batch(load[first : first + self.batch_size], start_s)
        seconds = time.perf_counter() - start_s
        cpu_s = time.process_time() - cpu_s
        return Run(
            seconds, token_times, sum(map(len, token_times)), cpu_s, memory.peak_mb(self.options.device)
        )

    def stop(self) -> None:
        del self.model

    @torch.inference_mode()
    def _run_batch(self, load: Load, start_s: float) -> list[list[float]]:
        """For each request, the time of each of its tokens, in seconds since start_s."""
        step_times: list[float] = []

        def record_time(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            step_times.append(time.perf_counter() - start_s)
            return scores

        ids, mask = pad_prompts(load, self.options.device)
        settings = GenerationConfig(
            max_new_tokens=max(request.num_tokens for request in load),
            do_sample=False,
            pad_token_id=PAD,
            eos_token_id=None,
        )
        self.model.generation_config = settings
        processors = LogitsProcessorList([record_time])
        rows = self.model.generate(input_ids=ids, attention_mask=mask, logits_processor=processors)
        assert rows.shape[1] == ids.shape[1] + settings.max_new_tokens, "an answer ended early"
        return [step_times[: request.num_tokens] for request in load]


def pad_prompts(load: Load, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The left-padded prompts (B, T) and their attention mask (B, T)."""
    width = max(len(request.ids) for request in load)
    ids = [[PAD] * (width - len(request.ids)) + list(request.ids) for request in load]
    mask = [[0] * (width - len(request.ids)) + [1] * len(request.ids) for request in load]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)
