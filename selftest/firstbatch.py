"""Waits for the first time that all rows were taken at once, and says when that is over, or long in coming.

Knows an engine's steps; nothing of memory.
"""

from collections.abc import Callable
from threading import Thread

from inference.engine.engine import Engine
from inference.engine.stats import Step

STEPS = 2000  # after so many it says what there was

Watch = Callable[[Step], None]


class FirstBatch:
    """An engine's watch, in the place of another, which is told of all steps and takes its place again.

    over  called once, with whether all rows were taken
    """

    def __init__(self, engine: Engine, other: Watch, over: Callable[[bool], None]) -> None:
        self.engine, self.other, self.over = engine, other, over
        self.full = False
        self.steps = 0

    def __call__(self, step: Step) -> None:
        """On the engine's thread; `over` is called on one of its own."""
        self.other(step)
        self.steps += 1
        running = len(self.engine.loop.scheduler.running)
        taken = running >= self.engine.loop.seating.max_rows
        if (self.full and not taken) or self.steps >= STEPS:
            self.engine.watch_with(self.other)
            Thread(target=self.over, args=(self.full,), name="ledger", daemon=True).start()
        self.full |= taken
