"""Overlaps host and device: the host always works one step ahead.

While the device computes step k, the host collects the tokens of step k - 1, samples step k and launches step
k + 1, in which the tokens of step k are pending: the device knows them, the host does not.

  device  | forward k-1, sample k-1 | forward k, sample k           | forward k+1, ...
  host      wait                    | collect k-1, sample k, schedule and launch k+1, send, wait

Step k + 1 is scheduled as if no token of step k ended its sequence; where one does, its row of step k + 1 is
computed in vain and left out. Its pages are free at once, because the device carries out steps in order. The
device is drained before a step that needs the host to know all tokens, which is computed as in PlainPipeline:
a step with drafts, a step that scores prompt tokens, a step for which memory is short, and some steps after
a failure.
"""

import logging
from typing import NamedTuple

from inference.engine.build_batch import build_batch
from inference.engine.kv.manager import KVCacheManager
from inference.engine.kv.paged import PagedKVCacheManager
from inference.engine.pipeline import CompletedStep, Pipeline, PlainPipeline, Schedule
from inference.engine.scheduling.scheduled_step import ScheduledStep
from inference.engine.scheduling.scheduler import SchedulerOutput
from inference.engine.speculation.proposer import Proposer
from inference.engine.step import InFlight, ModelStep
from inference.process.memory.memory_shortage import is_memory_shortage

log = logging.getLogger(__name__)

MAX_PLAIN_STEPS = 512  # after a failure; failures in a row double the number from 1


def create_pipeline(
    schedule: Schedule,
    proposer: Proposer | None,
    model_step: ModelStep,
    kv_cache_manager: KVCacheManager,
) -> Pipeline:
    """An OverlapPipeline if the device can overlap steps, else a PlainPipeline."""
    if model_step.runner.capabilities.overlap and isinstance(kv_cache_manager, PagedKVCacheManager):
        return OverlapPipeline(schedule, proposer, model_step, kv_cache_manager)
    return PlainPipeline(schedule, proposer, model_step, kv_cache_manager)


class LaunchedStep(NamedTuple):
    """A step in flight, and its schedule."""

    scheduled: ScheduledStep
    in_flight: InFlight


class OverlapPipeline(PlainPipeline):
    """A Pipeline for a runner that can overlap steps, with paged KV memory.

    launched        the latest step: the device computes its logits
    sampled         the step before it: its tokens are pending
    num_overlapped  steps launched while tokens were pending
    num_failures    steps in flight that failed; each was computed again by a plain step
    """

    def __init__(
        self,
        schedule: Schedule,
        proposer: Proposer | None,
        model_step: ModelStep,
        kv_cache_manager: PagedKVCacheManager,
    ) -> None:
        super().__init__(schedule, proposer, model_step, kv_cache_manager)
        self.restore_ops = kv_cache_manager.restore_ops
        self.launched: LaunchedStep | None = None
        self.sampled: LaunchedStep | None = None
        self.num_overlapped = self.num_failures = 0
        self._consecutive_failures = 0
        self._num_plain_steps = 0  # steps to compute without overlap
        self._num_newly_scheduled = 0  # since the last step that was launched or computed

    def collect(self) -> CompletedStep | None:
        if self.sampled is None:
            return None
        (scheduled, in_flight), self.sampled = self.sampled, None
        in_flight.drop_displaced()
        try:
            results = self.model_step.collect(in_flight)
        except Exception as error:
            self._record_failure(error)
            reset_in_flight(in_flight)
            self.discard()
            return None
        if in_flight.prepared.batch.pending_tokens is not None:
            self._consecutive_failures = 0
        for result in results:
            result.sequence.num_in_flight_tokens -= result.num_scheduled_tokens
            result.sequence.num_pending_tokens = 0
        return CompletedStep(scheduled, results) if results else None

    def advance(self) -> CompletedStep | None:
        self._sample_launched()
        if self.sampled is None:
            return self._start()
        if not self._num_plain_steps and not self._drafts_pay(self.sampled):
            self._launch_overlapped(self.sampled)
        return None

    def discard(self) -> None:
        super().discard()
        for step in (self.sampled, self.launched):
            if step is not None:
                reset_in_flight(step.in_flight)
        self.sampled = self.launched = None

    def _sample_launched(self) -> None:
        """Sample the launched step, for the sequences that still have their place."""
        step, self.launched = self.launched, None
        if step is None:
            return
        step.in_flight.drop_displaced()
        if not step.in_flight.results:
            return
        try:
            self.model_step.sample(step.in_flight)
        except Exception as error:
            self._record_failure(error)
            reset_in_flight(step.in_flight)
            return
        for sequence in step.in_flight.prepared.sampled_sequences:
            sequence.num_pending_tokens = 1
        self.sampled = step

    def _start(self) -> CompletedStep | None:
        """Launch a step, or compute a plain step, while nothing is in flight and all tokens are known."""
        scheduled = self._schedule()
        assert scheduled.output, "there are unfinished sequences and none can run"
        if self.proposer is not None:
            scheduled.num_tokens += self.proposer.propose(scheduled.output, scheduled.step_budget)
        if not self._num_plain_steps and can_overlap(scheduled.output):
            try:
                self._launch(scheduled, None)
            except Exception as error:
                self._record_failure(error)
            else:
                return None
        self._num_plain_steps = max(0, self._num_plain_steps - 1)
        self._num_newly_scheduled = 0
        return self.execute(scheduled)

    def _launch_overlapped(self, sampled: LaunchedStep) -> None:
        """Launch the next step while the tokens of `sampled` are pending, unless it must be a plain step."""
        scheduled = self._schedule()
        for sequence, _ in scheduled.output:
            sequence.draft_token_ids = []
        if not scheduled.output or not can_overlap(scheduled.output):
            return
        try:
            self._launch(scheduled, sampled)
        except Exception as error:
            self._record_failure(error)
        else:
            self.num_overlapped += 1

    def _schedule(self) -> ScheduledStep:
        scheduled = self.schedule()
        self._num_newly_scheduled += scheduled.num_newly_scheduled
        scheduled.num_newly_scheduled = self._num_newly_scheduled
        return scheduled

    def _drafts_pay(self, sampled: LaunchedStep) -> bool:
        """Whether drafts are likely to save time: they need a plain step."""
        output, step_budget = sampled.in_flight.scheduler_output, sampled.scheduled.step_budget
        return self.proposer is not None and self.proposer.is_worthwhile(output, step_budget)

    def _launch(self, scheduled: ScheduledStep, sampled: LaunchedStep | None) -> None:
        """Launch the step. Raises what the runner raises, or MemoryError; nothing has changed then."""
        cache_ops = self.kv_cache_manager.take_ops()
        try:
            pending_ids = sampled.in_flight.pending_ids if sampled else None
            prepared = build_batch(scheduled.output, cache_ops, self.kv_cache_manager, pending_ids)
            in_flight = self.model_step.launch(prepared, scheduled.output)
        except Exception:
            self.restore_ops(cache_ops)
            raise
        for sequence, count in scheduled.output:
            sequence.num_in_flight_tokens += count
        self.launched = LaunchedStep(scheduled, in_flight)
        self._num_newly_scheduled = 0

    def _record_failure(self, error: Exception) -> None:
        """Have plain steps find the cause, more of them after each failure in a row."""
        self.num_failures += 1
        self._num_plain_steps = min(2**self._consecutive_failures, MAX_PLAIN_STEPS)
        self._consecutive_failures += 1
        log.warning("step in flight failed error=%s", error, exc_info=not is_memory_shortage(error))


def can_overlap(scheduler_output: SchedulerOutput) -> bool:
    """Whether the step can be in flight: its results are one token a sequence, known when it is sampled."""
    return not any(s.draft_token_ids or s.lacks_prompt_logprobs for s, _ in scheduler_output)


def reset_in_flight(in_flight: InFlight) -> None:
    """Have the sequences compute again what the step computes, and all that depends on it."""
    for sequence in in_flight.sequences:
        sequence.num_in_flight_tokens = sequence.num_pending_tokens = 0
