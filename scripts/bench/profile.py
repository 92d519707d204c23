"""Profiles our engine's steps by timing its methods.

The time of a section excludes the timed methods that it calls. On a GPU the model runs asynchronously: its
time counts for the section that waits for the result, which is `sample`.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from inference.engine.engine import Engine

MODEL, REST, IDLE = "model", "update and output", "between steps"


class Profile:
    """Replaces methods of an engine by timed ones; create it before the engine starts.

    Call `start` before a load and `finish` after it.
    """

    def __init__(self, engine: Engine) -> None:
        self._seconds: dict[str, float] = {}
        self._inner = [0.0]
        core, runner = engine.core, engine.core.runner
        self._time(core, "step", REST)
        self._time(core.scheduler, "schedule", "schedule")
        if core.pipeline.proposer is not None:
            self._time(core.pipeline.proposer, "propose", "draft")
        self._time(core.pipeline, "advance", "build batch")
        self._time(runner, "forward", "around the model")
        if hasattr(runner, "model"):
            self._time(runner.model, "forward", MODEL)
        if hasattr(runner, "native"):
            self._time(runner.native, "step_run", MODEL)
        self._time(core.model_step.sampler, "sample_async", "sample")
        self._time(core.model_step, "collect", "sample")

    def start(self) -> None:
        self._seconds.clear()

    def finish(self, seconds: float) -> Mapping[str, float]:
        """Seconds of each section since `start`. The remainder of `seconds` counts as IDLE."""
        return self._seconds | {IDLE: seconds - sum(self._seconds.values())}

    def _time(self, owner: Any, name: str, section: str) -> None:
        setattr(owner, name, self._timed(getattr(owner, name), section))

    def _timed(self, function: Callable[..., Any], section: str) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            start_s = time.perf_counter()
            self._inner.append(0.0)
            try:
                return function(*args, **kwargs)
            finally:
                elapsed_s = time.perf_counter() - start_s
                own_s = elapsed_s - self._inner.pop()
                self._inner[-1] += elapsed_s
                self._seconds[section] = self._seconds.get(section, 0.0) + own_s

        return timed
