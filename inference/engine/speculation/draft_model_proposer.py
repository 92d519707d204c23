"""Speculation with a draft model: how many drafts it writes, from measured times and acceptance.

Leviathan et al., "Fast Inference from Transformers via Speculative Decoding" (2022). Drafts are accepted as
n-grams are: the sampler selects each token from the large model's logits, so answers do not change.
"""

import logging
import time
from dataclasses import dataclass, field

from inference.engine.kv.manager import KVCacheManager
from inference.engine.scheduling.scheduler import SchedulerOutput
from inference.engine.sequence import Sequence
from inference.engine.speculation.acceptance import (
    best_num_drafts,
    can_draft,
    max_drafts_of,
    max_drafts_per_row,
    step_duration,
    update_acceptance,
)
from inference.engine.speculation.draft_model import DraftModel
from inference.engine.speculation.step_times import StepTimes

log = logging.getLogger(__name__)

INITIAL_ACCEPTANCE = 0.6
INITIAL_SHARE = 0.2  # of the large model's step that the draft model's takes, before they are measured
# Steps after which another number of drafts is tried: what pays may have changed. Twice as many each time.
MIN_STEPS_BETWEEN_TRIALS, MAX_STEPS_BETWEEN_TRIALS = 4, 64
STEPS_AFTER_FAILURE = 1024  # without drafts, after the draft model has failed


@dataclass(slots=True)
class DraftRecord:
    """The latest drafts of a sequence: those behind its first `proposed_at` tokens, and the estimate."""

    acceptance: float
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
        self._acceptance = INITIAL_ACCEPTANCE  # of the latest drafts of all sequences
        self._times = StepTimes()  # of the large model
        self._started: tuple[int, int, float] | None = None  # its latest step: drafts, rows, when it began
        self._steps_between_trials = self._steps_until_trial = MIN_STEPS_BETWEEN_TRIALS
        self._steps_until_drafts = 0

    def propose(self, scheduler_output: SchedulerOutput, step_budget: int) -> int:
        """Set the drafts of each scheduled sequence, and return their number.

        An answer with a grammar has none, and neither has a step that computes a prompt.
        """
        sequences = [sequence for sequence, _ in scheduler_output]
        self._record_step()
        self._score(sequences)
        max_drafts = min(self.speculate, max_drafts_per_row(scheduler_output, step_budget))
        if num_drafts := self._num_drafts(sequences, max_drafts):
            self._write(sequences, num_drafts, step_budget)
        self._count_step()
        if max_drafts:
            most = max(len(sequence.draft_token_ids) for sequence in sequences)
            self._started = most, len(sequences), time.perf_counter()
        return sum(len(sequence.draft_token_ids) for sequence in sequences)

    def is_worthwhile(self, scheduler_output: SchedulerOutput, step_budget: int) -> bool:
        self._started = None  # steps that overlap are not measured
        max_drafts = min(self.speculate, max_drafts_per_row(scheduler_output, step_budget))
        is_worthwhile = self._num_drafts([sequence for sequence, _ in scheduler_output], max_drafts) > 0
        if not is_worthwhile:
            self._count_step()
        return is_worthwhile

    def discard(self) -> None:
        self._records, self._started = {}, None
        self.draft_model.keep_only(())

    def _record_step(self) -> None:
        """Take the time since the last proposal as that of a step, unless that had a prompt or overlapped."""
        if self._started is not None:
            num_drafts, num_rows, start_s = self._started
            self._times.record(num_drafts, num_rows, time.perf_counter() - start_s)
        self._started = None

    def _count_step(self) -> None:
        self._steps_until_drafts = max(0, self._steps_until_drafts - 1)
        self._steps_until_trial -= 1
        if self._steps_until_trial < 0:
            self._steps_between_trials = min(2 * self._steps_between_trials, MAX_STEPS_BETWEEN_TRIALS)
            self._steps_until_trial = self._steps_between_trials

    def _score(self, sequences: list[Sequence]) -> None:
        """Compare the last drafts with the tokens that followed, and forget sequences that have left."""
        self._records = {s.id: self._records.get(s.id) or DraftRecord(self._acceptance) for s in sequences}
        for sequence in sequences:
            record = self._records[sequence.id]
            new_token_ids = sequence.token_ids[record.proposed_at :] if record.draft_ids else []
            record.acceptance = update_acceptance(record.acceptance, record.draft_ids, new_token_ids)
            self._acceptance = update_acceptance(self._acceptance, record.draft_ids, new_token_ids)
            record.draft_ids = sequence.draft_token_ids = []
        self.draft_model.keep_only(sequences)

    def _num_drafts(self, sequences: list[Sequence], max_drafts: int) -> int:
        """Drafts for each sequence that can have some: the best number, or now and then any other."""
        drafting = [sequence for sequence in sequences if can_draft(sequence)]
        if not (max_drafts and drafting) or self._steps_until_drafts:
            return 0
        if not self._steps_until_trial:
            return self._times.least_known(max_drafts)
        records = (self._records.get(sequence.id) for sequence in drafting)
        acceptances = [record.acceptance if record else self._acceptance for record in records]
        durations = [self._duration(count, len(sequences)) for count in range(max_drafts + 1)]
        return best_num_drafts(acceptances, len(sequences), durations)

    def _duration(self, num_drafts: int, num_rows: int) -> float:
        """Time of a step and of the draft model's steps before it: seconds, once both are measured."""
        draft_s, step_s = self.draft_model.step_s, self._times.estimate(num_drafts, num_rows)
        if draft_s is None or step_s is None:
            return step_duration(num_drafts, num_rows) + num_drafts * INITIAL_SHARE
        return step_s + num_drafts * draft_s

    def _write(self, sequences: list[Sequence], num_drafts: int, step_budget: int) -> None:
        manager, drafting = self.kv_cache_manager, [each for each in sequences if can_draft(each)]
        limits = {each: min(num_drafts, max_drafts_of(each, manager)) for each in drafting}
        try:
            self.draft_model.propose({each: limit for each, limit in limits.items() if limit}, step_budget)
        except Exception:  # answers go on without drafts, whatever the model or its memory lacks
            log.exception("draft model failed; no drafts for %d steps", STEPS_AFTER_FAILURE)
            self.draft_model.reset()
            self._steps_until_drafts = STEPS_AFTER_FAILURE
            for sequence in sequences:
                sequence.draft_token_ids = []
        for sequence in drafting:
            record = self._records[sequence.id]
            record.draft_ids, record.proposed_at = sequence.draft_token_ids, len(sequence.token_ids)
