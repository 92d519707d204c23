"""The host's time in a step, in two parts: the engine, and the launch of the model.

engine  a step with a runner that returns the same logits at once: scheduling, building the batch, sampling
        and delivering tokens. The sampling's kernels run on the device and are awaited; they are short.
launch  the time in the runner's forward call, which returns before the device is done: copies to the device
        and a graph's replay, or the launch of every kernel. On a CPU it is the model's whole time.

Where their sum is below the device's time of a step, overlapped steps hide the host.
"""

import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import torch

from inference.model.batch import Batch
from scripts.gpu.engine import SteppedEngine
from scripts.gpu.figure import Figure
from scripts.gpu.section import SectionRun

ROWS = (1, 64, 256)
STEPS = 64


class InstantRunner:
    """A runner that computes nothing: every row's logits are the same random numbers."""

    def __init__(self, owner: SteppedEngine) -> None:
        self._runner = owner.runner
        dtype = getattr(torch, owner.options.dtype)
        generator = torch.Generator(device=owner.options.device).manual_seed(0)
        shape = (owner.size.max_sequences, owner.runner.vocab)
        self._logits = torch.randn(shape, generator=generator, device=owner.options.device).to(dtype)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    def forward(self, batch: Batch) -> torch.Tensor:
        return self._logits[: len(batch.logits_indices)]


class TimedRunner:
    """A runner that records how long its forward calls take until they return."""

    def __init__(self, owner: SteppedEngine) -> None:
        self._runner = owner.runner
        self.seconds: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    def forward(self, batch: Batch) -> torch.Tensor:
        start_s = time.perf_counter()
        logits = self._runner.forward(batch)
        self.seconds.append(time.perf_counter() - start_s)
        return logits


def measure_section(run: SectionRun) -> Iterator[Figure]:
    engine, steps = run.engines.get(), run.choose(STEPS, 4)
    for rows in run.choose(ROWS, (2,)):
        instant = InstantRunner(engine)
        with engine.using(runner=instant):
            engine_s = engine.decode_step_s(rows, steps)
        yield Figure(f"{rows} rows, engine", engine_s * 1e3, "ms a step")
        timed = TimedRunner(engine)
        with engine.using(runner=timed):
            step_s = engine.decode_step_s(rows, steps)
        launch_s = median(timed.seconds[-steps:])
        yield Figure(f"{rows} rows, launch", launch_s * 1e3, "ms a step")
        share = f"{100 * (engine_s + launch_s) / step_s:.0f} % of a step of {step_s * 1e3:.3f} ms"
        yield Figure(f"{rows} rows, host", (engine_s + launch_s) * 1e3, "ms a step", share)
