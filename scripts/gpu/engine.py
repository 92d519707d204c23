"""One engine for all sections: its caller runs each step, or a thread of its own does, as in a server.

An EnginePool holds at most one model in memory and reuses it while sections ask for the same one.
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from statistics import median
from typing import Any

import psutil
import torch

from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.engine.sampling.sampler import Sampler
from inference.engine.step_output import StepOutput
from inference.model.batch import Runner
from inference.model.load.device_dtype import DEFAULT_CONTEXT, config_length
from inference.model.quantization.schemes import Quantization
from inference.model.runner_selection.requirements import RunnerLimits, RunnerRules, kinds_of
from inference.model.runner_selection.select_runner import select_runner
from scripts.bench.hearth import PendingAnswers, TimedSink, make_request
from scripts.bench.load import Load, Request, Run, random_token_ids
from scripts.bench.models import build_model
from scripts.bench.options import BenchOptions
from scripts.gpu.device import release_memory, synchronize
from startup.freeze_gc import freeze_gc

KV_MEMORY_FRACTION = {"cuda": 0.5, "cpu": 0.1}  # of the memory that the weights leave free
PROMPT = 100
EXTRA_TOKENS = 64  # of an answer: no row ends while steps are timed
NUM_BLOCKS = 4  # of steps; the median block counts
TIMEOUT_S = 300  # for the answers of a load

BuildModel = Callable[[str, str, str], Any]  # (shape, dtype, device) → the model


@dataclass(frozen=True, slots=True)
class EngineSize:
    """The limits of an engine.

    max_batch_tokens  tokens of a step
    context           tokens of a row; 0: the model's own
    """

    max_sequences: int = 256
    max_batch_tokens: int = 2048
    context: int = 0


class SteppedEngine:
    """An engine on one model with random weights. selected: the model's runner.

    build: makes the model. build_s, select_s: seconds to make the weights, and to select and prepare the
    runner.
    """

    def __init__(self, options: BenchOptions, size: EngineSize, build: BuildModel = build_model) -> None:
        options.prepare()
        self.options, self.size, self.random = options, size, Random(1)
        start_s = time.perf_counter()
        self.model = build(options.model, options.dtype, options.device)
        synchronize(options.device)
        self.build_s = time.perf_counter() - start_s
        self.context = size.context or config_length(self.model.config) or DEFAULT_CONTEXT
        self.selected = select_runner(
            self.model,
            RunnerLimits(
                max_sequences=size.max_sequences,
                context=self.context,
                kv_memory_bytes=free_kv_bytes(options.device),
                max_batch_tokens=size.max_batch_tokens,
            ),
            RunnerRules(kinds=kinds_of(options.runner)),
            Quantization(options.quantize),
        )
        synchronize(options.device)
        self.select_s = time.perf_counter() - start_s - self.build_s
        self.runner: Runner = self.selected.runner
        self.engine = self.create_engine()

    def create_engine(self, max_batch_tokens: int = 0, runner: Runner | None = None) -> Engine:
        return Engine(
            runner or self.runner,
            Sampler(self.runner.vocab),
            EngineOptions(
                max_batch_tokens=max_batch_tokens or self.size.max_batch_tokens, max_queued_tokens=10**9
            ),
        )

    @contextmanager
    def using(self, *, max_batch_tokens: int = 0, runner: Runner | None = None) -> Iterator[None]:
        """A new engine within the block: with other tokens a step, or with another runner."""
        self.engine = self.create_engine(max_batch_tokens, runner)
        try:
            yield
        finally:
            self.engine = self.create_engine()

    @contextmanager
    def overlapping(self, overlaps: bool) -> Iterator[None]:
        """Overlapped steps are switched on or off within the block, with a new engine."""
        before = self.runner.capabilities
        self.runner.capabilities = replace(before, overlap=overlaps)
        try:
            with self.using():
                yield
        finally:
            self.runner.capabilities = before
            self.engine = self.create_engine()

    def decode_load(
        self, rows: int, steps: int, request: Request | None = None, prompt: int = PROMPT
    ) -> Load:
        """Requests that still decode when all of them have decoded for `steps` steps."""
        prefill_steps = 2 * rows * prompt // self.size.max_batch_tokens
        return self.make_load(rows, prompt, steps + prefill_steps + EXTRA_TOKENS, request)

    def make_load(self, rows: int, prompt: int, num_tokens: int, request: Request | None = None) -> Load:
        """Requests with new prompts, which no cache contains. request: has the sampling settings."""
        like = request or Request((), 1)
        prompts = [random_token_ids(self.random, prompt, self.runner.vocab) for _ in range(rows)]
        return [replace(like, ids=ids, num_tokens=num_tokens, seed=row) for row, ids in enumerate(prompts)]

    @contextmanager
    def submitting(self, load: Load) -> Iterator[list["TokenSink"]]:
        """Submit the load, and end its requests after the block."""
        sinks = [TokenSink() for _ in load]
        ids = self.engine.submit([make_request(request) for request in load], sinks)
        try:
            yield sinks
        finally:
            self.engine.abort(ids)

    @contextmanager
    def decoding(self, load: Load) -> Iterator["Decoding"]:
        """Within the block, each step decodes one token of all rows."""
        try:
            with self.submitting(load) as sinks:
                decoding = Decoding(self, sinks)
                while min(sink.num_tokens for sink in sinks) < 3:
                    decoding.step()
                yield decoding
        finally:
            self.drain()

    def decode_step_s(
        self, rows: int, steps: int, request: Request | None = None, prompt: int = PROMPT
    ) -> float:
        """Seconds for one token of each of `rows` rows: the median of NUM_BLOCKS blocks of steps."""
        with self.decoding(self.decode_load(rows, steps, request, prompt)) as decoding:
            per_block = max(1, steps // NUM_BLOCKS)
            return median(decoding.time_steps(per_block) for _ in range(NUM_BLOCKS))

    def run_threaded(self, load: Load) -> Run:
        """Compute the load with the engine on its own thread, as a server does."""
        pending = PendingAnswers(len(load))
        engine = self.create_engine()
        engine.start()
        try:
            sinks = [TimedSink(pending, time.perf_counter()) for _ in load]
            start_s, cpu_s = time.perf_counter(), time.process_time()
            engine.submit([make_request(request) for request in load], sinks)
            if not pending.all_finished.wait(TIMEOUT_S):
                raise TimeoutError(f"{pending.count} of {len(load)} answers missing after {TIMEOUT_S} s")
            seconds, cpu_s = time.perf_counter() - start_s, time.process_time() - cpu_s
        finally:
            engine.stop()
        if pending.error:
            raise pending.error
        return Run(
            seconds, [sink.token_times for sink in sinks], sum(sink.num_tokens for sink in sinks), cpu_s
        )

    @torch.inference_mode()
    def drain(self) -> None:
        while self.engine.step():
            pass


@dataclass(frozen=True, slots=True)
class Decoding:
    """Rows that decode. sinks: one for each row."""

    owner: SteppedEngine
    sinks: "list[TokenSink]"

    @torch.inference_mode()
    def step(self) -> None:
        """Run one step. Raises the error of a row."""
        self.owner.engine.step()
        for sink in self.sinks:
            if sink.error:
                raise sink.error

    def time_steps(self, steps: int) -> float:
        """Seconds for one token of each row, over `steps` steps."""
        before = sum(sink.num_tokens for sink in self.sinks)
        start_s = time.perf_counter()
        for _ in range(steps):
            self.step()
        seconds = time.perf_counter() - start_s
        num_tokens = sum(sink.num_tokens for sink in self.sinks) - before
        return seconds * len(self.sinks) / max(1, num_tokens)


class TokenSink:
    """An OutputSink that counts tokens. first_s: time.perf_counter() at the first one."""

    def __init__(self) -> None:
        self.num_tokens, self.first_s, self.is_finished = 0, 0.0, False
        self.error: Exception | None = None

    def put(self, output: StepOutput) -> None:
        if output.token_ids and not self.num_tokens:
            self.first_s = time.perf_counter()
        self.num_tokens += len(output.token_ids)
        self.is_finished = self.is_finished or bool(output.finish_reason)
        self.error = self.error or output.error


class EnginePool:
    """Builds the engine that a section needs, and keeps it until one of another size is needed.

    freezes_gc: all objects are exempt from garbage collection meanwhile, as in the server: a collection of
    them would take 0.2 s of a measured step.
    """

    def __init__(self, options: BenchOptions, size: EngineSize, freezes_gc: bool = False) -> None:
        self.options, self.size, self.freezes_gc = options, size, freezes_gc
        self._current: SteppedEngine | None = None

    def get(self, context: int = 0, max_sequences: int = 0) -> SteppedEngine:
        """The engine for rows of `context` tokens and `max_sequences` rows; 0: the usual ones."""
        size = replace(self.size, context=context, max_sequences=max_sequences or self.size.max_sequences)
        if self._current is None or self._current.size != size:
            self.free()
            self._current = SteppedEngine(self.options, size)
            if self.freezes_gc:
                freeze_gc()
        return self._current

    def free(self) -> None:
        """Free the memory of the current engine, if there is one."""
        self._current = None
        if self.freezes_gc:
            gc.unfreeze()
        gc.collect()
        release_memory(self.options.device)


def free_kv_bytes(device: str) -> int:
    """Bytes to use for the KV cache."""
    free = torch.cuda.mem_get_info()[0] if device == "cuda" else psutil.virtual_memory().available
    return int(KV_MEMORY_FRACTION[device] * free)
