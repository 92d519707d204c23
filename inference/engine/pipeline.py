"""The steps of the engine, from the schedule to the results: one after the other, or overlapped.

A pipeline schedules, computes and returns results; the core appends them to the sequences. PlainPipeline is
for every runner; overlap_pipeline.py has the one that keeps an asynchronous device busy.
"""

from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from typing import Protocol

from inference.engine.kv.manager import KVCacheManager
from inference.engine.scheduling.scheduled_step import ScheduledStep
from inference.engine.speculation.proposer import Proposer
from inference.engine.step import ModelStep, StepOutOfMemory
from inference.engine.step_result import StepResult
from inference.model.batch import CacheOp


@dataclass(slots=True)
class CompletedStep:
    """A step whose results are known.

    out_of_memory  the step computed nothing and has no results; cache_ops may or may not be carried out
    """

    scheduled: ScheduledStep
    results: list[StepResult]
    out_of_memory: StepOutOfMemory | MemoryError | None = None
    cache_ops: SequenceOf[CacheOp] = ()


Schedule = Callable[[], ScheduledStep]


class Pipeline(Protocol):
    """Runs the steps. The core calls `collect`, then `advance`, and updates the sequences after each call.

    proposer  proposes draft tokens; None: no speculative decoding
    """

    proposer: Proposer | None

    def collect(self) -> CompletedStep | None:
        """Wait for the oldest step whose tokens are pending, if there is one."""
        ...

    def advance(self) -> CompletedStep | None:
        """Launch the next step, or compute it. There are unfinished sequences."""
        ...

    def discard(self) -> None:
        """Discard the steps in flight and what drafts were based on: no sequence is left."""
        ...


class PlainPipeline:
    """Computes one step after the other: `advance` returns its results.

    schedule  schedules the next step
    """

    def __init__(
        self,
        schedule: Schedule,
        proposer: Proposer | None,
        model_step: ModelStep,
        kv_cache_manager: KVCacheManager,
    ) -> None:
        self.schedule = schedule
        self.proposer = proposer
        self.model_step = model_step
        self.kv_cache_manager = kv_cache_manager

    def collect(self) -> CompletedStep | None:
        return None

    def advance(self) -> CompletedStep | None:
        scheduled = self.schedule()
        assert scheduled.output, "there are unfinished sequences and none can run"
        if self.proposer is not None:
            scheduled.num_tokens += self.proposer.propose(scheduled.output, scheduled.step_budget)
        return self.execute(scheduled)

    def discard(self) -> None:
        if self.proposer is not None:
            self.proposer.discard()

    def execute(self, scheduled: ScheduledStep) -> CompletedStep:
        """Compute the step and wait for its results."""
        cache_ops: list[CacheOp] = []
        try:
            cache_ops = self.kv_cache_manager.take_ops()
            return CompletedStep(scheduled, self.model_step.execute(scheduled.output, cache_ops))
        except (StepOutOfMemory, MemoryError) as out_of_memory:
            return CompletedStep(scheduled, [], out_of_memory, cache_ops)
