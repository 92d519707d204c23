"""Speculation with a draft model: how many drafts it writes, from measured times and acceptance.

Leviathan et al., "Fast Inference from Transformers via Speculative Decoding" (2022). Drafts are accepted as
n-grams are: the sampler selects each token from the large model's logits, so answers do not change.
"""

import logging
import time
from dataclasses import dataclass, field

from inference.engine.kv.manager import KVCacheManager
from inference.engine.scheduler import SchedulerOutput
from inference.engine.sequence import Sequence
from inference.engine.speculation.acceptance import (
    best_num_drafts,
    can_draft,
    max_drafts_of,
    max_drafts_per_row,
    step_cost,
    update_acceptance,
)
from inference.engine.speculation.draft_model import DraftModel, moving_average

log = logging.getLogger(__name__)

INITIAL_ACCEPTANCE = 0.6
INITIAL_COST = 0.2  # time of the draft model's step, as a share of the large model's, before it is measured
STEPS_BETWEEN_TRIALS = 64  # steps without drafts after which one draft shows whether they pay again
STEPS_AFTER_FAILURE = 1024  # steps without drafts after the draft model has failed


@dataclass(slots=True)
class DraftRecord:
    """The latest drafts of a sequence: those behind its first `proposed_at` tokens, and the estimate."""

    acceptance: float = INITIAL_ACCEPTANCE
    draft_ids: list[int] = field(default_factory=list)
    proposed_at: int = 0


class DraftModelProposer:
    """A Proposer (see proposer.py): a draft model writes as many drafts as are likely to save time.

    kv_cache_manager  of the large model
    speculate         maximum number of drafts per sequence and step
    """

    def __init__(self, draft_model: DraftModel, kv_cache_manager: KVCacheManager, speculate: int) -> None:
        self.draft_model = draft_model
        self.kv_cache_manager = kv_cache_manager
        self.speculate = speculate
        self._records: dict[int, DraftRecord] = {}
        self._step_s: float | None = None  # of the large model, without drafts
        self._started: tuple[float, float] | None = None  # when its latest step began, and that step's cost
        self._steps_until_trial = STEPS_BETWEEN_TRIALS

    def propose(self, scheduler_output: SchedulerOutput, token_budget: int) -> int:
        """Set the drafts of each scheduled sequence, and return their number.

        An answer with a grammar has none, and neither has a step that computes a prompt.
        """
        sequences = [sequence for sequence, _ in scheduler_output]
        self._measure_step()
        self._score(sequences)
        num_drafts = self._num_drafts(scheduler_output, token_budget)
        if num_drafts:
            self._write(sequences, num_drafts, token_budget)
        most = max(len(sequence.draft_token_ids) for sequence in sequences)
        if max_drafts_per_row(scheduler_output, token_budget):
            self._started = time.perf_counter(), step_cost(most, len(sequences))
        return sum(len(sequence.draft_token_ids) for sequence in sequences)

    def is_worthwhile(self, scheduler_output: SchedulerOutput, token_budget: int) -> bool:
        self._started = None
        return self._num_drafts(scheduler_output, token_budget) > 0

    def discard(self) -> None:
        self._records, self._started = {}, None
        self.draft_model.keep_only(())

    def _measure_step(self) -> None:
        """Take the time since the last proposal as that of a step, unless that had a prompt or overlapped."""
        if self._started is not None:
            start_s, cost = self._started
            self._step_s = moving_average(self._step_s, (time.perf_counter() - start_s) / (1 + cost))
        self._started = None

    def _score(self, sequences: list[Sequence]) -> None:
        """Compare the last drafts with the tokens that followed, and forget sequences that have left."""
        self._records = {s.id: self._records.get(s.id) or DraftRecord() for s in sequences}
        for sequence in sequences:
            record = self._records[sequence.id]
            new_token_ids = sequence.token_ids[record.proposed_at :] if record.draft_ids else []
            record.acceptance = update_acceptance(record.acceptance, record.draft_ids, new_token_ids)
            record.draft_ids = sequence.draft_token_ids = []
        self.draft_model.keep_only(sequences)

    def _num_drafts(self, scheduler_output: SchedulerOutput, token_budget: int) -> int:
        """Drafts for each sequence that can have some; one now and then where none are likely to pay."""
        max_drafts = min(self.speculate, max_drafts_per_row(scheduler_output, token_budget))
        acceptances = [
            self._records[s.id].acceptance if s.id in self._records else INITIAL_ACCEPTANCE
            for s, _ in scheduler_output
            if can_draft(s)
        ]
        cost = INITIAL_COST
        if self.draft_model.step_s and self._step_s:
            cost = self.draft_model.step_s / self._step_s
        num_drafts = best_num_drafts(acceptances, len(scheduler_output), max_drafts, cost)
        if num_drafts and self._steps_until_trial <= STEPS_BETWEEN_TRIALS:
            return num_drafts
        if max_drafts > 0 and acceptances:
            self._steps_until_trial -= 1
        if self._steps_until_trial > 0:
            return 0
        self._steps_until_trial = STEPS_BETWEEN_TRIALS
        return 1

    def _write(self, sequences: list[Sequence], num_drafts: int, token_budget: int) -> None:
        manager, drafting = self.kv_cache_manager, [each for each in sequences if can_draft(each)]
        limits = {each: min(num_drafts, max_drafts_of(each, manager)) for each in drafting}
        try:
            self.draft_model.propose({each: limit for each, limit in limits.items() if limit}, token_budget)
        except Exception:  # answers go on without drafts, whatever the model or its memory lacks
            log.exception("draft model failed; no drafts for %d steps", STEPS_AFTER_FAILURE)
            self.draft_model.reset()
            self._steps_until_trial = STEPS_AFTER_FAILURE
            for sequence in sequences:
                sequence.draft_token_ids = []
        for sequence in drafting:
            record = self._records[sequence.id]
            record.draft_ids, record.proposed_at = sequence.draft_token_ids, len(sequence.token_ids)
