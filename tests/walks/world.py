"""An engine driven turn by turn, with its own clock and a record of all requests.

The invariants are checked after every turn, and every answer at the end.
"""

from collections import Counter
from collections.abc import Generator

import pytest
import torch

from inference.engine.background import BackgroundTask
from inference.engine.engine import Engine
from inference.errors import Overloaded, TooLong
from inference.model.batch import Batch
from inference.types import GenerationRequest
from tests.engine.conftest import NAN
from tests.engine.engine_probe import EngineProbe
from tests.fakes.stepped_clock import SteppedClock
from tests.walks.invariants import check_invariants
from tests.walks.tracked_request import ReferenceOutputs, TrackedRequest, check_request

RECOVERY_STEPS = 10  # after running out of memory; walks are too short for the usual number
COUNTED = ("steps", "preemptions", "accepted_tokens", "drafted_tokens", "cached_tokens", "oom_steps")


class World:
    """`event_counts` counts what has happened, so that a test can check that its walks reached something."""

    def __init__(self, engine: Engine, reference: ReferenceOutputs, event_counts: Counter[str]) -> None:
        self.engine, self.reference, self.event_counts = engine, reference, event_counts
        self.clock = SteppedClock()
        self.patch = pytest.MonkeyPatch()
        self.probe = EngineProbe(engine)
        self.probe.set_clock(self.patch, self.clock)
        self.probe.set_recovery_steps(self.patch, RECOVERY_STEPS)
        self.requests: dict[int, TrackedRequest] = {}
        self.started_ids: set[int] = set()
        self.background_tasks: list[BackgroundTask[int]] = []
        self.over: list[object] = []
        self.faults: list[tuple[Exception, bool]] = []  # (error, whether it is raised after the cache ops)

    def submit(self, *generation_requests: GenerationRequest) -> list[TrackedRequest]:
        """The tracked requests; empty if the requests are too long or too many."""
        waiting = self.engine.stats().waiting_tokens
        requests = [TrackedRequest(-1, each) for each in generation_requests]
        try:
            ids = self.engine.submit(generation_requests, requests)
        except (TooLong, Overloaded) as refused:
            assert self.engine.stats().waiting_tokens == waiting
            self.event_counts[type(refused).__name__] += 1
            return []
        for id, request in zip(ids, requests, strict=True):
            request.id = id
            self.requests[id] = request
        return requests

    def cancel(self, request: TrackedRequest) -> None:
        request.cancelled = True
        self.engine.abort([request.id])

    def preempt(self, number: int) -> None:
        running = self.probe.running
        if running:
            self.probe.preempt(running[number % len(running)])

    def run_background_task(self, steps: int, fails: bool) -> None:
        def work() -> Generator[None, None, int]:
            for _ in range(steps):
                self.clock.now += 0.5
                yield
            if fails:
                raise ValueError("by chance")
            return steps

        self.background_tasks.append(BackgroundTask(work(), self.over.append))
        self.engine.run(self.background_tasks[-1])

    def fail(self, batch: Batch, moved: bool) -> None:
        """Raises the next of `faults` when it is due; blames the sequence if it is alone in the batch."""
        if not self.faults or self.faults[-1][1] != moved or (moved and self._doubly(batch)):
            return
        if len(batch.rows) == 1:
            (alone,) = (s.id for s in self.probe.kv_cache.active if s.row == batch.rows[0])
            self.requests[alone].blamed = True
        raise self.faults.pop()[0]

    def _doubly(self, batch: Batch) -> bool:
        """Whether memory would run out right after NaN was written: the NaN would then make a neighbour
        fail.
        """
        return NAN in batch.token_ids and isinstance(self.faults[-1][0], torch.OutOfMemoryError)

    @torch.inference_mode()
    def turn(self, count: int = 1) -> bool:
        """Takes `count` turns; returns whether work is left."""
        busy = True
        for _ in range(count):
            self.clock.now += 1
            busy = self._step()
            self.started_ids |= {sequence.id for sequence in self.probe.newly_running}
            self.check()
        return busy

    def _step(self) -> bool:
        oom_steps, preemptions = self.probe.counters.oom_steps, self.probe.num_preemptions
        busy = self.engine.step()
        if self.probe.counters.oom_steps == oom_steps:
            self.event_counts["squeezed"] += self.probe.num_preemptions - preemptions
        return busy

    def check(self) -> None:
        check_invariants(self.probe, self.requests, self.started_ids)

    def finish(self, stops: bool = False) -> None:
        """Runs until all requests end, or stops the engine, and checks each answer so far."""
        try:
            num_turns = 0
            while not stops and self.turn():
                num_turns += 1
                assert num_turns < 3_000, "still busy"
            if stops:
                self.engine.stop()
            self.check_requests(stops)
        finally:
            self.patch.undo()

    def check_requests(self, stopped: bool) -> None:
        stats = self.engine.stats()
        for request in self.requests.values():
            self.event_counts[request.finish_reason] += 1
            check_request(request, self.reference, stopped)
        assert stopped or not stats.running + stats.waiting + stats.waiting_tokens + stats.kv_used
        assert all(task.future.done() for task in self.background_tasks) and len(self.over) == len(
            self.background_tasks
        )
        for name in COUNTED:
            self.event_counts[name] += getattr(stats, name)
        self.event_counts["early"] += getattr(self.probe.runner, "early", 0)
