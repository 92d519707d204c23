"""An engine whose caller runs each step, so that steps can be timed and profiled."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from inference.engine.engine import Engine
from inference.engine.sampling.sampler import Sampler
from inference.engine.sequence import StepOutput
from inference.model import select_runner
from inference.model.load.device_dtype import config_length
from scripts.bench.hearth import MAX_BATCH_TOKENS, MAX_SEQUENCES, free_kv_bytes, make_task
from scripts.bench.load import equal_length_load
from scripts.bench.models import build_model
from scripts.bench.options import BenchOptions

CONTEXT = 2048
PROMPT = 100
EXTRA_STEPS = 25  # for the prefill of all rows, and a few more


class SteppedEngine:
    """An engine on one model with random weights. selected: the model's runner."""

    def __init__(self, options: BenchOptions) -> None:
        options.prepare()
        self.options = options
        self.model = build_model(options.model, options.dtype, options.device)
        context = min(config_length(self.model.config) or CONTEXT, CONTEXT)
        self.selected = select_runner.select_runner(
            self.model,
            max_sequences=MAX_SEQUENCES,
            context=context,
            kv_memory_bytes=free_kv_bytes(options.device),
        )
        self.engine = self.create_engine()

    def create_engine(self) -> Engine:
        return Engine(
            self.selected.runner,
            Sampler(self.options.vocab_size),
            max_batch_tokens=MAX_BATCH_TOKENS,
            max_queued_tokens=10**9,
        )

    def set_overlap(self, overlaps: bool) -> None:
        """Switch overlapped steps on or off, with a new engine. The engine must be idle."""
        self.selected.runner.async_capable = overlaps
        self.engine = self.create_engine()

    @contextmanager
    def decoding(self, rows: int, steps: int) -> Iterator[None]:
        """Within the block, each step decodes one token of `rows` sequences, for at least `steps` steps."""
        load = equal_length_load(Random(rows), self.options.vocab_size, rows, PROMPT, steps + EXTRA_STEPS)
        sinks = [CountingSink() for _ in load]
        ids = self.engine.submit([make_task(request) for request in load], sinks)
        while min(sink.num_tokens for sink in sinks) < 3:
            self.engine.step()
        yield
        self.engine.abort(ids)
        while self.engine.step():
            pass

    def step(self) -> float:
        """Run one step; the seconds until its tokens are on the host."""
        start_s = time.perf_counter()
        self.engine.step()
        return time.perf_counter() - start_s


class CountingSink:
    """An OutputSink that counts tokens."""

    def __init__(self) -> None:
        self.num_tokens = 0

    def put(self, output: StepOutput) -> None:
        if output.error is not None:
            raise output.error
        self.num_tokens += len(output.token_ids)
