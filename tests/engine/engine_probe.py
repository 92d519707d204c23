"""The only place in the tests that knows the internals of an engine."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from inference.engine import core, sequence
from inference.engine.background import BackgroundQueue
from inference.engine.engine import Engine
from inference.engine.kv.contiguous import ContiguousKVCacheManager
from inference.engine.kv.manager import KVCacheManager
from inference.engine.kv.paged import PagedKVCacheManager
from inference.engine.overlap_pipeline import OverlapPipeline
from inference.engine.pipeline import Proposer
from inference.engine.scheduling import priority_policy, step_limits
from inference.engine.sequence import Sequence
from inference.engine_stats import EngineCounters, StepStats
from inference.model.batch import CacheOp, Runner


@dataclass(frozen=True, slots=True)
class EngineProbe:
    """Reads and changes the internals of a running engine between two steps.

    For the thread that steps the engine. The lists are the engine's own, not copies.
    """

    engine: Engine

    @property
    def runner(self) -> Runner:
        return self.engine.core.runner

    @property
    def kv_cache(self) -> KVCacheManager:
        """The manager of the KV memory."""
        return self.engine.core.kv_cache_manager

    @property
    def proposer(self) -> Proposer | None:
        return self.engine.core.pipeline.proposer

    @property
    def on_step(self) -> Callable[[StepStats], None]:
        """The listener of each step."""
        return self.engine.core.on_step

    @property
    def counters(self) -> EngineCounters:
        return self.engine.core.counters

    @property
    def unfinished(self) -> Mapping[int, Sequence]:
        """All submitted sequences that have not ended, by id."""
        return self.engine.core.sequences

    @property
    def running(self) -> list[Sequence]:
        """Sequences with a row, oldest first."""
        return self.engine.core.scheduler.running

    @property
    def waiting(self) -> list[Sequence]:
        """Sequences without a row, in the order of admission."""
        return self.engine.core.scheduler.waiting

    @property
    def newly_running(self) -> list[Sequence]:
        """Sequences that got a row in the last step."""
        return self.engine.core.scheduler.newly_scheduled

    @property
    def num_preemptions(self) -> int:
        return self.engine.core.scheduler.preemptions

    @property
    def queued_tokens(self) -> int:
        """Prompt tokens that admission control counts as waiting."""
        return self.engine.core.admission_control.queued_tokens

    @property
    def num_deadlines(self) -> int:
        """Deadlines that the engine remembers."""
        return len(self.engine.core._deadlines)

    @property
    def context(self) -> int:
        """Tokens that one sequence may hold."""
        return self.kv_cache.context

    @property
    def free_pages(self) -> int:
        """Pages that no sequence lists and that contain nothing reusable."""
        assert isinstance(self.kv_cache, PagedKVCacheManager)
        return len(self.kv_cache.pool.free_pages)

    @property
    def has_cached_prefixes(self) -> bool:
        """Whether tokens of ended sequences can be reused."""
        assert isinstance(self.kv_cache, PagedKVCacheManager | ContiguousKVCacheManager)
        if isinstance(self.kv_cache, PagedKVCacheManager):
            return bool(self.kv_cache.pool.evictable)
        return bool(self.kv_cache.evictable)

    @property
    def pending_cache_ops(self) -> list[CacheOp]:
        """The cache ops that the runner has to do before its next step."""
        assert isinstance(self.kv_cache, PagedKVCacheManager | ContiguousKVCacheManager)
        return self.kv_cache.cache_ops

    @property
    def num_failed_early_steps(self) -> int:
        """Steps in flight that failed; 0 if steps are not overlapped."""
        pipeline = self.engine.core.pipeline
        return pipeline.num_failures if isinstance(pipeline, OverlapPipeline) else 0

    @property
    def num_overlapped(self) -> int:
        """Steps launched while tokens of the step before were pending; 0 if steps are not overlapped."""
        pipeline = self.engine.core.pipeline
        return pipeline.num_overlapped if isinstance(pipeline, OverlapPipeline) else 0

    @property
    def splits_prompts_evenly(self) -> bool:
        """Whether prompts are computed in chunks of one size, whatever else runs."""
        return bool(self.engine.core.scheduler.chunking.chunk_size)

    def check(self) -> None:
        """Assert that the bookkeeping of the KV memory is consistent."""
        self.kv_cache.check_integrity()

    def preempt(self, sequence: Sequence) -> None:
        """Move a running sequence to the front of the waiting ones."""
        self.engine.core.scheduler.preempt(sequence)

    def reset_cache(self) -> None:
        """Discard the KV memory: every sequence is computed again."""
        self.engine.core.scheduler.reset()

    def set_proposer(self, proposer: Any) -> None:
        self.engine.core.pipeline.proposer = proposer

    def set_clock(self, patch: pytest.MonkeyPatch, clock: Any) -> None:
        """Have deadlines, queue times, pauses of embeddings and background tasks use this clock instead of
        the module `time`.
        """
        modules: tuple[ModuleType, ...] = (core, sequence, priority_policy)
        for module in modules:
            patch.setattr(module, "time", clock)
        self.engine.core.background_queue = BackgroundQueue(clock.monotonic)

    def ignore_step_times(self) -> None:
        """Let any number of prompt tokens join answers: how many do so depends on how fast the machine is."""
        self.engine.core.scheduler.step_time_limit = None

    def set_recovery_steps(self, patch: pytest.MonkeyPatch, steps: int) -> None:
        """Restores the limits after this many successful steps after an out-of-memory step."""
        patch.setattr(step_limits, "STEPS_TO_RECOVER", steps)
