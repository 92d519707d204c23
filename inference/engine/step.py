"""One step: builds the batch, runs the model, samples; if that fails, finds the sequence that caused it.

Knows a Runner and a Sampler; knows neither the scheduler's rules nor the receivers of outputs.
"""

import logging
from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from math import isnan

import torch

from inference.engine.build_batch import PendingIds, PreparedBatch, build_batch
from inference.engine.chunking import UNCHUNKED, Chunking
from inference.engine.kv.manager import KVCacheManager
from inference.engine.sampling.place_scores import add_place_scores
from inference.engine.sampling.sampler import NAN_LOGITS, PendingSample, Sampler
from inference.engine.sampling.scatter import select_rows
from inference.engine.scheduling.scheduler import SchedulerOutput
from inference.engine.sequence import Sequence
from inference.engine.step_result import (
    MODEL_FAILED,
    StepResult,
    add_pooled_sums,
    add_sampled_tokens,
    error_for,
    fail_if_not_finite,
)
from inference.errors import Internal
from inference.model.batch import CacheOp, Runner
from inference.model.device_copy import copy_to_host_async
from inference.model.lost_device import DeviceLost, is_device_lost
from inference.process.memory.memory_shortage import is_memory_shortage

log = logging.getLogger(__name__)


@dataclass(slots=True)
class InFlight:
    """A step that the device is computing.

    results         the results known so far
    logits          until the step is sampled; valid until the next step is launched
    pending_sample  once it is sampled
    hidden_sums     waits for the sums (P, d) of the pooled rows, and returns them; None if there are none
    pooled          their sequences
    """

    prepared: PreparedBatch
    results: list[StepResult]
    logits: torch.Tensor | None
    pending_sample: PendingSample | None = None
    hidden_sums: Callable[[], torch.Tensor] | None = None
    pooled: SequenceOf[Sequence] = ()

    @property
    def sequences(self) -> list[Sequence]:
        return [result.sequence for result in self.results]

    @property
    def pending_ids(self) -> PendingIds:
        """The ids of a sampled step without drafts."""
        assert self.pending_sample is not None
        sampled_sequences = self.prepared.sampled_sequences
        index_of = {sequence.id: index for index, sequence in enumerate(sampled_sequences)}
        return PendingIds(self.pending_sample.token_ids, index_of)

    @property
    def scheduler_output(self) -> SchedulerOutput:
        return [(result.sequence, result.num_scheduled_tokens) for result in self.results]

    def drop_displaced(self) -> None:
        """Leave out sequences that have lost their place since the launch: nothing of theirs is in flight."""
        dropped_ids = {s.id for s in self.sequences if not s.num_in_flight_tokens}
        if dropped_ids:
            self.results = [result for result in self.results if result.sequence.id not in dropped_ids]
            if self.pending_sample is None:
                self.prepared.drop(dropped_ids)


class StepOutOfMemory(Exception):
    """The step needs more memory than is free."""


class ModelStep:
    """Computes scheduled steps."""

    def __init__(
        self,
        runner: Runner,
        sampler: Sampler,
        kv_cache_manager: KVCacheManager,
        chunking: Chunking = UNCHUNKED,
    ) -> None:
        self.runner = runner
        self.sampler = sampler
        self.kv_cache_manager = kv_cache_manager
        self.chunking = chunking

    def execute(self, scheduler_output: SchedulerOutput, cache_ops: SequenceOf[CacheOp]) -> list[StepResult]:
        """The results of the scheduled sequences, in their order; the caller updates the sequences.

        A failed step is repeated in halves until each sequence that fails runs alone. Raises StepOutOfMemory
        when memory runs out: the rows then hold the same tokens as before, and the cache ops may or may not
        have been carried out. Raises DeviceLost if nothing can be computed any more.
        """
        try:
            return self.execute_once(scheduler_output, cache_ops)
        except Exception as error:
            if is_device_lost():  # cuBLAS reports a shortage of memory then, too
                raise DeviceLost(str(error)) from error
            if is_memory_shortage(error):
                raise StepOutOfMemory(str(error)) from error
            log.exception("step failed sequences=%d", len(scheduler_output))
        return self._bisect(scheduler_output)

    def execute_once(
        self, scheduler_output: SchedulerOutput, cache_ops: SequenceOf[CacheOp]
    ) -> list[StepResult]:
        """As `execute`, without repeating a failed step. Raises whatever the runner or the sampler raises."""
        prepared = build_batch(scheduler_output, cache_ops, self.kv_cache_manager)
        in_flight = self.launch(prepared, scheduler_output)
        self.sample(in_flight)
        return self.collect(in_flight)

    def launch(self, prepared: PreparedBatch, scheduler_output: SchedulerOutput) -> InFlight:
        """Start computing the logits of the step; returns before they are computed if the runner overlaps."""
        logits = self.runner.forward(prepared.batch)
        in_flight = InFlight(
            prepared, [StepResult(sequence, count) for sequence, count in scheduler_output], logits
        )
        if prepared.batch.pooled_rows:
            in_flight.hidden_sums = copy_to_host_async(self.runner.hidden_sums)
            in_flight.pooled = [scheduler_output[i][0] for i in prepared.batch.pooled_rows]
        return in_flight

    def sample(self, in_flight: InFlight) -> None:
        """Start sampling the step, which must be the last one launched.

        Waits for the device only if the step scores prompt tokens.
        """
        prepared, logits = in_flight.prepared, in_flight.logits
        assert logits is not None
        in_flight.logits = None
        if prepared.prompt_logprob_rows:
            self._add_prompt_logprobs(prepared, logits, in_flight.results)
        checked = select_rows(logits, prepared.nan_checks.values()) if prepared.nan_checks else None
        if prepared.sampled_sequences or checked is not None:
            in_flight.pending_sample = self.sampler.sample_async(
                select_rows(logits, prepared.sampled_rows), prepared.sampled_sequences, checked
            )

    def collect(self, in_flight: InFlight) -> list[StepResult]:
        """Wait for the sampled tokens, advance the matchers, and return the results of the step."""
        if in_flight.pending_sample is not None:
            sampled_tokens = in_flight.pending_sample.wait()  # sync
            add_sampled_tokens(in_flight.prepared, sampled_tokens, in_flight.results)
            if in_flight.prepared.nan_checks:
                finite = in_flight.pending_sample.wait_finite()
                fail_if_not_finite(in_flight.prepared, finite, in_flight.results)
        if in_flight.hidden_sums is not None:
            add_pooled_sums(in_flight.hidden_sums(), in_flight.pooled, in_flight.results)  # sync
        return in_flight.results

    def _add_prompt_logprobs(
        self, prepared: PreparedBatch, logits: torch.Tensor, results: list[StepResult]
    ) -> None:
        results_by_id = {result.sequence.id: result for result in results}
        for entry in prepared.prompt_logprob_rows:
            num_top_logprobs = entry.sequence.request.prompt_logprobs or 0
            rows = logits[entry.first_row : entry.first_row + len(entry.token_ids)]
            result = results_by_id[entry.sequence.id]
            scores = self.sampler.prompt_logprobs(rows, entry.token_ids, num_top_logprobs)
            result.prompt_logprobs = add_place_scores(scores, rows[:, : self.runner.vocab], entry.sequence)
            if any(each.logprob is not None and isnan(each.logprob) for each in result.prompt_logprobs):
                result.error = error_for(NAN_LOGITS)

    def _bisect(self, scheduler_output: SchedulerOutput) -> list[StepResult]:
        """Repeat a failed step in halves; its cache ops are done. A sequence that fails alone is the cause.

        A forward pass can be repeated because it rewrites the same KV entries. A recurrent state cannot be
        restored, so without chunked prefill each sequence is computed again from its start.
        """
        if len(scheduler_output) == 1:
            return [StepResult(scheduler_output[0][0], error=Internal(MODEL_FAILED))]
        results = []
        can_repeat = self.runner.capabilities.chunked_prefill
        for group in halves(scheduler_output) if can_repeat else map(self._restart, scheduler_output):
            try:
                results += self.execute_once(group, ())
            except Exception:
                log.exception("part of a step failed sequences=%d", len(group))
                results += self._bisect(group)
        return results

    def _restart(self, entry: tuple[Sequence, int]) -> SchedulerOutput:
        sequence = entry[0]
        sequence.num_computed_tokens = 0
        return [(sequence, self.chunking.num_next_tokens(sequence))]


def halves(scheduler_output: SchedulerOutput) -> tuple[SchedulerOutput, SchedulerOutput]:
    return scheduler_output[: len(scheduler_output) // 2], scheduler_output[len(scheduler_output) // 2 :]
