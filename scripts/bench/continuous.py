"""transformers' own continuous batching: paged keys and values, requests that join and leave between steps.

One manager for all loads, warmed up before the first, with its own defaults in all else.
"""

import time
from typing import Any

import torch
from transformers import GenerationConfig

from scripts.bench import memory
from scripts.bench.load import Load, Run
from scripts.bench.models import build
from scripts.bench.terms import Terms

NO_END = -1
WAIT_S = 600  # for the next answer


class Continuous:
    """A Player, for greedy requests."""

    def __init__(self, terms: Terms) -> None:
        terms.prepare()
        self.terms = terms
        model = build(terms.model, terms.dtype, terms.device)
        settings = GenerationConfig(do_sample=False, eos_token_id=NO_END, max_new_tokens=1)
        with torch.no_grad():
            self.manager = model.init_continuous_batching(generation_config=settings)
            self.manager.warmup()
        self.manager.start()
        self.about = str(model.config._attn_implementation)

    def run(self, load: Load) -> Run:
        memory.reset(self.terms.device)
        began, worked = time.perf_counter(), time.process_time()
        places = {self._ask(request.ids, request.tokens): i for i, request in enumerate(load)}
        stamps: list[list[float]] = [[] for _ in load]
        for _ in load:
            answer = self._next()
            stamps[places[answer.request_id]] = [stamp - began for stamp in answer.timestamps]
        seconds = time.perf_counter() - began
        worked = time.process_time() - worked
        for request, times in zip(load, stamps, strict=True):
            assert len(times) == request.tokens, "an answer ended early"
        return Run(seconds, stamps, sum(map(len, stamps)), worked, memory.peak_mb(self.terms.device))

    def stop(self) -> None:
        self.manager.stop(block=True)

    def _ask(self, ids: tuple[int, ...], tokens: int) -> str:
        name = self.manager.add_request(
            list(ids), max_new_tokens=tokens, eos_token_id=NO_END, record_timestamps=True
        )
        assert isinstance(name, str)
        return name

    def _next(self) -> Any:
        answer = self.manager.get_result(timeout=WAIT_S)
        if answer is None or answer.error:
            raise RuntimeError(f"continuous batching failed: {answer and answer.error}")
        return answer
