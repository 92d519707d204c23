"""An event loop without waits: its clock, which is also time.monotonic(), goes on instead."""

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest


class SimulatedLoop(asyncio.SelectorEventLoop):
    """now: of its clock, in seconds"""

    def __init__(self) -> None:
        super().__init__(selectors.DefaultSelector())
        self.now = 100.0
        self._selector.select = self._skip  # type: ignore[attr-defined]

    def time(self) -> float:
        return self.now

    def _skip(self, timeout: float | None) -> list[Any]:
        assert timeout is not None, "all tasks wait for what never happens"
        self.now += timeout
        return []


def run_simulated(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a scenario, however long it lasts by its clock, as fast as it computes, and in the same order."""
    loop = SimulatedLoop()
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner(loop_factory=lambda: loop) as runner:
        patch.setattr(time, "monotonic", loop.time)
        runner.run(scenario())
