"""Waits for the first time that all rows were taken at once, and says when that is over, or long in coming.

Knows an engine's steps; nothing of memory.
"""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread

from inference.engine.engine import Engine
from inference.engine.stats import Step

STEPS = 2000  # after so many it says what there was, and waits on

Watch = Callable[[Step], None]


@dataclass(frozen=True, slots=True)
class Seen:
    """rows: all were taken at once; tokens: a step had as many as one may have."""

    rows: bool
    tokens: bool


class FirstBatch:
    """An engine's watch, in the place of another, which is told of all steps and takes its place again.

    over  called with what was seen: behind the first full batch, and once before if that is long in coming
    """

    def __init__(self, engine: Engine, other: Watch, over: Callable[[Seen], None]) -> None:
        self.engine, self.other, self.over = engine, other, over
        self.most = engine.loop.scheduler.budget
        self.seen = Seen(rows=False, tokens=False)
        self.steps = 0

    def __call__(self, step: Step) -> None:
        """On the engine's thread; `over` is called on one of its own."""
        self.other(step)
        self.steps += 1
        before, loop = self.seen, self.engine.loop
        taken = len(loop.scheduler.running) >= loop.seating.max_rows
        self.seen = Seen(before.rows or taken, before.tokens or step.tokens >= self.most)
        if before.rows and not taken:
            self.engine.watch_with(self.other)
            self.tell()
        elif self.steps == STEPS and not self.seen.rows:
            self.tell()

    def tell(self) -> None:
        Thread(target=self.over, args=(self.seen,), name="ledger", daemon=True).start()
