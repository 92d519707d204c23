"""Where the time of our engine's steps goes, by watching the doors between its parts.

Each part's seconds are its own: what it calls that is watched too is not counted twice. On a GPU the model
runs on while its caller goes on, and whoever waits for the outcome is charged: that is the sampler.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from inference.engine.engine import Engine

MODEL, REST, IDLE = "model", "commit and hand out", "between steps"


class Profile:
    """Watches an engine from before it starts. `begin` and `end` bracket a load."""

    def __init__(self, engine: Engine) -> None:
        self._seconds: dict[str, float] = {}
        self._inner = [0.0]
        loop, runner = engine.loop, engine.loop.runner
        self._watch(loop, "turn", REST)
        self._watch(loop.scheduler, "schedule", "schedule")
        self._watch(loop.speculator, "draft", "draft")
        self._watch(loop.stepper, "ready", "pack")
        self._watch(loop.stepper, "compute", "pack")
        self._watch(runner, "forward", "around the model")
        if hasattr(runner, "model"):
            self._watch(runner.model, "forward", MODEL)
        if hasattr(runner, "run"):
            self._watch(runner, "run", MODEL)
        self._watch(loop.stepper.sampler, "draw", "sample")
        self._watch(loop.stepper, "end", "sample")

    def begin(self) -> None:
        self._seconds.clear()

    def end(self, seconds: float) -> Mapping[str, float]:
        """Seconds of each part since `begin`, which was so many seconds ago."""
        return self._seconds | {IDLE: seconds - sum(self._seconds.values())}

    def _watch(self, owner: Any, name: str, part: str) -> None:
        setattr(owner, name, self._timed(getattr(owner, name), part))

    def _timed(self, work: Callable[..., Any], part: str) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            self._inner.append(0.0)
            try:
                return work(*args, **kwargs)
            finally:
                spent = time.perf_counter() - began
                own = spent - self._inner.pop()
                self._inner[-1] += spent
                self._seconds[part] = self._seconds.get(part, 0.0) + own

        return timed
