"""transformers' continuous batching as an engine: paged KV cache; requests join and leave between steps.

One manager serves all loads; it is warmed up before the first. All other settings are the defaults, but the
KV cache may be limited: by default it takes most of the memory.
"""

import time
from typing import Any

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig

from scripts.bench import memory
from scripts.bench.load import Load, Run
from scripts.bench.models import build_model
from scripts.bench.options import BenchOptions

NO_EOS = -1
WAIT_S = 600  # until the next answer


class Continuous:
    """An EngineUnderTest for greedy requests. num_blocks: of the KV cache; None: transformers' choice."""

    def __init__(self, options: BenchOptions, num_blocks: int | None = None) -> None:
        options.prepare()
        self.options = options
        model = build_model(options.model, options.dtype, options.device)
        settings = GenerationConfig(do_sample=False, eos_token_id=NO_EOS, max_new_tokens=1)
        with torch.no_grad():
            self.manager = model.init_continuous_batching(
                generation_config=settings,
                continuous_batching_config=ContinuousBatchingConfig(num_blocks=num_blocks),
            )
            self.manager.warmup()
        self.manager.start()
        self.description = str(model.config._attn_implementation)

    def run(self, load: Load) -> Run:
        memory.reset(self.options.device)
        start_s, cpu_s = time.perf_counter(), time.process_time()
        index_by_id = {self._submit(request.ids, request.num_tokens): i for i, request in enumerate(load)}
        token_times: list[list[float]] = [[] for _ in load]
        for _ in load:
            result = self._next_result()
            token_times[index_by_id[result.request_id]] = [stamp - start_s for stamp in result.timestamps]
        seconds = time.perf_counter() - start_s
        cpu_s = time.process_time() - cpu_s
        for request, times in zip(load, token_times, strict=True):
            assert len(times) == request.num_tokens, "an answer ended early"
        return Run(
            seconds, token_times, sum(map(len, token_times)), cpu_s, memory.peak_mb(self.options.device)
        )

    def stop(self) -> None:
        self.manager.stop(block=True)

    def _submit(self, ids: tuple[int, ...], num_tokens: int) -> str:
        request_id = self.manager.add_request(
            list(ids), max_new_tokens=num_tokens, eos_token_id=NO_EOS, record_timestamps=True
        )
        assert isinstance(request_id, str)
        return request_id

    def _next_result(self) -> Any:
        result = self.manager.get_result(timeout=WAIT_S)
        if result is None or result.error:
            raise RuntimeError(f"continuous batching failed: {result and result.error}")
        return result
