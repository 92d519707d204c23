"""An engine over paged memory that a test drives step by step, and its requests."""

from collections.abc import Sequence as SequenceOf
from typing import Any

import torch

from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.engine.sampling.sampler import Sampler
from inference.engine.sequence import Matcher
from inference.sampling import Sampling
from inference.types import GenerationRequest
from tests.engine.conftest import END, VOCAB, RecordingSink
from tests.engine.engine_probe import EngineProbe
from tests.engine.generation_requests import make_request
from tests.walks.async_device import AsyncEchoRunner, AsyncSampler
from tests.walks.paged_echo_runner import PagedEchoRunner

GREEDY = Sampling(greedy=True)
PROMPTS = ((4, 5, 6), (7, 8), (9, 10, 11, 12, 13), (14,))
LENGTH = 20


class PagedBench:
    """An engine over paged memory, driven step by step; with `overlaps` its runner is async-capable.

    If `may_fail` is set, early steps may fail: they are then scheduled as usual and no answer changes.
    """

    may_fail = False

    def __init__(
        self,
        overlaps: bool,
        sampler: Sampler | None = None,
        drafts: int = 0,
        asynchronous: bool = False,
        **shape: Any,
    ) -> None:
        shape = {"max_sequences": 4, "kv_capacity": 400, "context": 96} | shape
        if asynchronous:
            self.runner = AsyncEchoRunner(**shape)
            sampler = AsyncSampler(self.runner)
        else:
            self.runner = PagedEchoRunner(**shape, overlap=overlaps)
        self.engine = Engine(
            self.runner,
            sampler or Sampler(VOCAB),
            EngineOptions(max_batch_tokens=32, max_queued_tokens=10_000, speculate=drafts),
        )
        self.probe = EngineProbe(self.engine)
        self.sinks: list[RecordingSink] = []
        self.ids: list[int] = []

    def submit(
        self, *requests: GenerationRequest, matchers: SequenceOf[Matcher | None] = ()
    ) -> list[RecordingSink]:
        sinks = [RecordingSink() for _ in requests]
        self.ids += self.engine.submit(requests, sinks, matchers)
        self.sinks += sinks
        return sinks

    @torch.inference_mode()
    def step(self, count: int = 1) -> bool:
        busy = True
        for _ in range(count):
            busy = self.engine.step()
            self.probe.check()
            assert self.may_fail or not self.probe.num_failed_early_steps
        return busy

    def run_until_idle(self) -> "PagedBench":
        for _ in range(500):
            if not self.step():
                return self
        raise AssertionError("still busy")

    @property
    def share_overlapped(self) -> float:
        """The share of steps launched while tokens of the step before were pending."""
        return self.probe.num_overlapped / self.engine.stats().steps

    @property
    def outputs(self) -> list[list[tuple[object, ...]]]:
        """All outputs of each request, without the queue times."""
        return [
            [
                (
                    r.token_ids,
                    r.logprobs,
                    r.top_logprobs,
                    r.num_cached_tokens,
                    r.prompt_logprobs,
                    r.finish_reason,
                    str(r.error or ""),
                )
                for r in sink.outputs
            ]
            for sink in self.sinks
        ]


def make_requests(**options: Any) -> list[GenerationRequest]:
    task_fields = {"sampling": GREEDY, "stop_token_ids": frozenset({END}), "max_tokens": LENGTH} | options
    return [make_request(ids, seed=seed, **task_fields) for seed, ids in enumerate(PROMPTS)]
