"""An engine that is driven turn by turn, with a clock of its own and memory of all that was asked of it.

Whatever is done, its accounts are checked after every turn, and at the end every answer.
"""

from collections import Counter
from collections.abc import Generator

import pytest
import torch

from inference.engine import gate, loop, scheduler
from inference.engine.engine import Engine
from inference.engine.errand import Errand, Errands
from inference.engine.sequence import Task
from inference.errors import Overloaded, TooLong
from inference.model.batch import Batch
from tests.engine.conftest import NAN
from tests.walks.accounts import check_accounts
from tests.walks.verdict import Asked, Right, judge

CALM = 10  # steps after a shortage; a walk is too short for many
COUNTED = ("steps", "preemptions", "accepted_tokens", "drafted_tokens", "cached_tokens", "shortages")


class Clock:
    """In the place of the module `time`: it stands still until it is set."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    perf_counter = monotonic


class World:
    """`seen` counts what has happened, so that a test can tell whether its walks led anywhere."""

    def __init__(self, engine: Engine, right: Right, seen: Counter[str]) -> None:
        self.engine, self.right, self.seen = engine, right, seen
        self.clock = Clock()
        self.patch = pytest.MonkeyPatch()
        for module in (loop, gate):
            self.patch.setattr(module, "time", self.clock)
        self.patch.setattr(scheduler, "CALM", CALM)
        engine.loop.errands = Errands(self.clock.monotonic)
        self.asked: dict[int, Asked] = {}
        self.begun: set[int] = set()
        self.errands: list[Errand[int]] = []
        self.over: list[object] = []
        self.faults: list[tuple[Exception, bool]] = []  # and whether it comes behind the moves

    def submit(self, *tasks: Task) -> list[Asked]:
        """What became of the tasks: nothing where they are too long or too many."""
        waiting = self.engine.stats().waiting_tokens
        heard = [Asked(-1, task) for task in tasks]
        try:
            ids = self.engine.submit(tasks, heard)
        except (TooLong, Overloaded) as refused:
            assert self.engine.stats().waiting_tokens == waiting
            self.seen[type(refused).__name__] += 1
            return []
        for id, one in zip(ids, heard, strict=True):
            one.id = id
            self.asked[id] = one
        return heard

    def cancel(self, one: Asked) -> None:
        one.cancelled = True
        self.engine.cancel([one.id])

    def preempt(self, number: int) -> None:
        running = self.engine.loop.scheduler.running
        if running:
            self.engine.loop.scheduler.preempt(running[number % len(running)])

    def errand(self, steps: int, fails: bool) -> None:
        def work() -> Generator[None, None, int]:
            for _ in range(steps):
                self.clock.now += 0.5
                yield
            if fails:
                raise ValueError("by chance")
            return steps

        self.errands.append(Errand(work(), self.over.append))
        self.engine.run(self.errands[-1])

    def fail(self, batch: Batch, moved: bool) -> None:
        """The runner's fault: raises the next of `faults` at its place, and blames a sequence that stands
        alone in the batch."""
        if not self.faults or self.faults[-1][1] != moved or (moved and self._doubly(batch)):
            return
        if len(batch.rows) == 1:
            (alone,) = (s.id for s in self.engine.loop.seating.live if s.row == batch.rows[0])
            self.asked[alone].blamed = True
        raise self.faults.pop()[0]

    def _doubly(self, batch: Batch) -> bool:
        """Whether memory would run out behind the very writing of what is no number: that stays where it is,
        and a neighbour may fail of it."""
        return NAN in batch.ids and isinstance(self.faults[-1][0], torch.OutOfMemoryError)

    @torch.inference_mode()
    def turn(self, count: int = 1) -> bool:
        """Take so many turns; returns whether anything is left to do."""
        busy = True
        for _ in range(count):
            self.clock.now += 1
            busy = self._step()
            self.begun |= {sequence.id for sequence in self.engine.loop.scheduler.seated}
            self.check()
        return busy

    def _step(self) -> bool:
        before = self.engine.stats()
        busy = self.engine.step()
        after = self.engine.stats()
        if after.shortages == before.shortages:
            self.seen["squeezed"] += after.preemptions - before.preemptions
        return busy

    def check(self) -> None:
        check_accounts(self.engine, self.asked, self.begun)

    def finish(self, stops: bool = False) -> None:
        """Let all come to its end, or stop the engine, and see that each answer is right so far."""
        try:
            left = 3_000
            while not stops and self.turn():
                left -= 1
                assert left, "still busy"
            if stops:
                self.engine.stop()
            self.judge(stops)
        finally:
            self.patch.undo()

    def judge(self, stopped: bool) -> None:
        stats = self.engine.stats()
        for one in self.asked.values():
            self.seen[one.reason] += 1
            judge(one, self.right, stopped)
        assert stopped or not stats.running + stats.waiting + stats.waiting_tokens + stats.held
        assert all(errand.future.done() for errand in self.errands) and len(self.over) == len(self.errands)
        for name in COUNTED:
            self.seen[name] += getattr(stats, name)
        self.seen["early"] += getattr(self.engine.loop.runner, "early", 0)
