"""Overlaps host and device: launches the next step while the device still computes this one.

If each sequence of a step gains one token, the next step most likely has the same sequences. It is launched
with the sampled tokens on the device, which the host does not know yet. Like a draft, the early step is
speculative: results that match the schedule are used, the rest is discarded. The early step writes only
behind the tokens of each sequence, and the device computes in order: discarding needs no undo.
"""

import logging
from collections.abc import Iterator
from collections.abc import Sequence as SequenceOf
from contextlib import contextmanager
from dataclasses import dataclass

from inference.engine.build_batch import PreparedBatch, build_batch
from inference.engine.chunking import Chunking
from inference.engine.kv.manager import KVCacheManager
from inference.engine.kv.paged import PagedKVCacheManager
from inference.engine.sampling.processors import has_token_dependent_processor
from inference.engine.sampling.sampler import NAN_LOGITS, Sampler
from inference.engine.scheduler import SchedulerOutput
from inference.engine.sequence import Sequence
from inference.engine.step import InFlight, ModelStep, StepResult, is_out_of_memory
from inference.model.batch import Batch, CacheOp, Runner

log = logging.getLogger(__name__)

UNKNOWN_ID = -1  # placeholder of a token id that the host does not know yet
MAX_FAILURES = 3  # consecutive failures after which no step is launched early

TokenLocation = tuple[int, int, int]  # row, position in the sequence, page


def create_model_step(
    runner: Runner, sampler: Sampler, kv_cache_manager: KVCacheManager, chunking: Chunking
) -> ModelStep:
    """An OverlapStep if the device can overlap steps, else a ModelStep."""
    if runner.async_capable and isinstance(kv_cache_manager, PagedKVCacheManager):
        return OverlapStep(runner, sampler, kv_cache_manager)
    return ModelStep(runner, sampler, kv_cache_manager.context, chunking)


@dataclass(frozen=True, slots=True)
class EarlyStep:
    """A step launched before it was scheduled. `locations`: where it computes a token, by sequence id."""

    in_flight: InFlight
    locations: dict[int, TokenLocation]


class OverlapStep(ModelStep):
    """A ModelStep that launches steps early, on an async-capable runner with paged KV memory."""

    def __init__(self, runner: Runner, sampler: Sampler, kv_cache_manager: PagedKVCacheManager) -> None:
        super().__init__(runner, sampler, kv_cache_manager.context)
        self.kv_cache_manager = kv_cache_manager
        self.early_step: EarlyStep | None = None
        self.consecutive_failures = 0
        self.num_failures = 0

    def take_early_results(self, scheduler_output: SchedulerOutput) -> list[StepResult]:
        """The results of the early step for the scheduled sequences; empty if there are none.

        Scheduled sequences that were not in the early step have no result. An early step clears all drafts.
        If it matches the schedule exactly and no sequence had drafts, the step after it is launched too.
        """
        early_step, self.early_step = self.early_step, None
        if early_step is None:
            return []
        valid_ids = {
            s.id
            for s, _ in scheduler_output
            if s.num_uncomputed_tokens == 1
            and early_step.locations.get(s.id) == self._locate_token(s, s.num_computed_tokens)
        }
        has_drafts = any(sequence.draft_token_ids for sequence, _ in scheduler_output)
        for sequence, _ in scheduler_output:
            sequence.draft_token_ids = []
        try:
            if len(valid_ids) == len(scheduler_output) == len(early_step.locations) and not has_drafts:
                return self._launch_early_step_and_collect(early_step.in_flight)
            results = self.collect(early_step.in_flight)
        except Exception:
            self.num_failures += 1
            log.exception("early step failed sequences=%d", len(early_step.locations))
            return []
        self._clear_nan_pages(early_step, results, valid_ids)
        return [result for result in results if result.sequence.id in valid_ids]

    def execute_once(
        self, scheduler_output: SchedulerOutput, cache_ops: SequenceOf[CacheOp]
    ) -> list[StepResult]:
        return self._launch_early_step_and_collect(
            self.launch(build_batch(scheduler_output, cache_ops, self.context), scheduler_output)
        )

    def _launch_early_step_and_collect(self, in_flight: InFlight) -> list[StepResult]:
        """The results of a step; the next step is launched before they are known."""
        early_step = self._try_launch_early_step(in_flight)
        results = self.collect(in_flight)
        self.early_step = early_step
        return results

    def _try_launch_early_step(self, in_flight: InFlight) -> EarlyStep | None:
        """Launch the next step; None if the host must see the results first."""
        sequences = [result.sequence for result in in_flight.results]
        has_error = any(result.error for result in in_flight.results)
        if (
            has_error
            or self.consecutive_failures >= MAX_FAILURES
            or self.kv_cache_manager.cache_ops
            or in_flight.prepared.sampled_sequences != sequences
        ):
            return None
        if not all(map(self._will_continue, sequences)):
            return None
        try:
            early_step = self._launch_early_step(in_flight, sequences)
        except Exception as error:  # the scheduled step finds the cause
            self.consecutive_failures += 1
            self.num_failures += 1
            log.warning("early step not launched error=%s", error, exc_info=not is_out_of_memory(error))
            return None
        self.consecutive_failures = 0
        return early_step

    def _will_continue(self, sequence: Sequence) -> bool:
        """Whether the sequence takes one more token after the pending one, whatever that token is."""
        max_len = min(sequence.max_len, self.context)
        return (
            len(sequence.token_ids) + 1 < max_len
            and self.kv_cache_manager.num_free_tokens(sequence) > 0
            and not has_token_dependent_processor(sequence)
        )

    def _launch_early_step(self, in_flight: InFlight, sequences: list[Sequence]) -> EarlyStep:
        assert in_flight.pending_sample is not None
        rows = range(len(sequences))
        batch = Batch(
            token_ids=[UNKNOWN_ID for _ in rows],
            query_start_loc=range(len(rows) + 1),
            num_computed_tokens=[len(sequence.token_ids) for sequence in sequences],
            rows=[sequence.row for sequence in sequences],
            logits_indices=rows,
            page_table=[sequence.pages for sequence in sequences],
            # The id of a failed row is below 0.
            device_token_ids=in_flight.pending_sample.token_ids.clamp(min=0),
        )
        locations = {s.id: self._locate_token(s, len(s.token_ids)) for s in sequences}
        with counting_pending_token(sequences):
            return EarlyStep(
                self.launch(PreparedBatch(batch, sequences), [(s, 1) for s in sequences]), locations
            )

    def _locate_token(self, sequence: Sequence, index: int) -> TokenLocation:
        return sequence.row, index, sequence.pages[index // self.kv_cache_manager.page_size]

    def _clear_nan_pages(self, early_step: EarlyStep, results: list[StepResult], valid_ids: set[int]) -> None:
        """Clear the pages to which discarded results wrote NaN."""
        for result in results:
            id = result.sequence.id
            if id not in valid_ids and result.sampled_tokens[0].id == NAN_LOGITS:
                self.kv_cache_manager.clear_page(early_step.locations[id][-1])


@contextmanager
def counting_pending_token(sequences: SequenceOf[Sequence]) -> Iterator[None]:
    """Give each sequence one pending token while the body runs: its output counts one token more."""
    for sequence in sequences:
        sequence.num_pending_tokens = 1
    try:
        yield
    finally:
        for sequence in sequences:
            sequence.num_pending_tokens = 0
