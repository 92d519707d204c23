"""Our engine without the HTTP server: scheduling, model, sampling and output are measured."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import psutil
import torch

from inference.engine.engine import Engine
from inference.engine.engine_thread import EngineThread
from inference.engine.options import EngineOptions
from inference.engine.sampling.sampler import Sampler
from inference.engine.speculation.draft_model import DraftModel
from inference.engine.step_output import StepOutput
from inference.model.load.device_dtype import DEFAULT_CONTEXT, config_length
from inference.model.quantization.schemes import Quantization
from inference.model.runner_selection.requirements import RunnerLimits, RunnerRules, kinds_of
from inference.model.runner_selection.select_runner import SelectedRunner, select_runner
from inference.sampling import Sampling
from inference.types import GenerationRequest
from scripts.bench import memory
from scripts.bench.engine_under_test import SpawnedEngine
from scripts.bench.load import Load, Request, Run
from scripts.bench.models import build_model
from scripts.bench.options import AUTO, BenchOptions
from scripts.bench.profile import Profile
from settings.device_defaults import DEFAULTS

BuildModel = Callable[[str, str, str], Any]  # (model, dtype, device), as models.build_model
KV_MEMORY_FRACTION = 0.2  # of the free memory: another engine may need as much at the same time


class Hearth:
    """An EngineUnderTest: one engine on one model serves all loads, as in the server.

    prefix_caching, speculate: arguments of Engine. build, build_draft: make the model and its draft model.
    """

    def __init__(
        self,
        options: BenchOptions,
        *,
        prefix_caching: bool = True,
        speculate: int = 0,
        build: BuildModel = build_model,
        build_draft: BuildModel | None = None,
    ) -> None:
        options.prepare()
        self.options = options
        thread = EngineThread("engine")
        selected = thread.run(partial(load_runner, options, build))
        draft = thread.run(partial(load_runner, options, build_draft)) if build_draft else None
        self.description = selected.runner_kind
        self.engine = Engine(
            selected.runner,
            Sampler(selected.runner.vocab),
            EngineOptions(
                max_batch_tokens=DEFAULTS[options.device]["max_batch_tokens"],
                max_queued_tokens=10**9,
                prefix_caching=prefix_caching,
                speculate=speculate,
                draft_model=DraftModel(draft.runner, Sampler(selected.runner.vocab)) if draft else None,
            ),
        )
        self.profile = Profile(self.engine) if options.profile else None
        self.engine.start(thread)

    def run(self, load: Load) -> Run:
        memory.reset(self.options.device)
        if self.profile:
            self.profile.start()
        start_s, cpu_s = time.perf_counter(), time.process_time()
        sinks = compute(self.engine, load)
        seconds = time.perf_counter() - start_s
        return Run(
            seconds,
            [sink.token_times for sink in sinks],
            sum(sink.num_tokens for sink in sinks),
            time.process_time() - cpu_s,
            memory.peak_mb(self.options.device),
            self.profile.finish(seconds) if self.profile else {},
        )

    def stop(self) -> None:
        self.engine.stop()


def compute(engine: Engine, load: Load) -> "list[TimedSink]":
    """Compute all requests at once, and wait for the end. Raises the first error of one."""
    pending = PendingAnswers(len(load))
    sinks = [TimedSink(pending, time.perf_counter()) for _ in load]
    engine.submit([make_request(request) for request in load], sinks)
    pending.all_finished.wait()
    if pending.error:
        raise pending.error
    return sinks


def load_runner(options: BenchOptions, build: BuildModel = build_model) -> SelectedRunner:
    model = build(options.model, options.dtype, options.device)
    return select_runner(
        model,
        RunnerLimits(
            max_sequences=DEFAULTS[options.device]["max_sequences"],
            context=config_length(model.config) or DEFAULT_CONTEXT,
            kv_memory_bytes=free_kv_bytes(options.device),
            max_batch_tokens=DEFAULTS[options.device]["max_batch_tokens"],
        ),
        RunnerRules(kinds=kinds_of(options.runner)),
        Quantization(options.quantize),
    )


class PendingAnswers:
    """Counts the unfinished answers of a load. error: the first error, if there was one."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.all_finished = threading.Event()
        self.error: Exception | None = None


@dataclass(slots=True)
class TimedSink:
    """An OutputSink that records when tokens arrive, in seconds since start_s."""

    pending: PendingAnswers
    start_s: float
    token_times: list[float] = field(default_factory=list)
    num_tokens: int = 0

    def put(self, output: StepOutput) -> None:
        if output.token_ids:
            self.token_times.append(time.perf_counter() - self.start_s)
            self.num_tokens += len(output.token_ids)
        if output.finish_reason or output.error:
            self.pending.error = self.pending.error or output.error
            self.pending.count -= 1
            if not self.pending.count:
                self.pending.all_finished.set()


def pin_runner(options: BenchOptions) -> BenchOptions:
    """Options with the runner that our engine selects now, so that several engines use the same runner."""
    if options.runner != AUTO:
        return options
    engine = SpawnedEngine(partial(Hearth, options))
    engine.stop()
    return replace(options, runner=engine.description)


def make_request(request: Request) -> GenerationRequest:
    sampling = Sampling(
        greedy=not request.temperature,
        temperature=request.temperature or 1.0,
        top_k=request.top_k,
        top_p=request.top_p,
        seed=request.seed,
    )
    return GenerationRequest(request.ids, sampling, max_tokens=request.num_tokens)


def free_kv_bytes(device: str) -> int:
    """Bytes to use for the KV cache."""
    free = torch.cuda.mem_get_info()[0] if device == "cuda" else psutil.virtual_memory().available
    return int(KV_MEMORY_FRACTION * free)
