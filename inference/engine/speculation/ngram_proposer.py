"""N-gram speculation: proposes draft tokens from earlier repetitions in the same sequence.

If a sequence repeats itself, the tokens that followed an earlier occurrence of its last n-gram are likely to
follow again (Saxena, "Prompt Lookup Decoding", 2023). A draft is accepted only if the sampler selects the
same token, so drafts never change an answer. Knows sequences and the scheduler's output; knows no logits.
"""

from inference.engine.kv.manager import KVCacheManager
from inference.engine.scheduling.scheduler import SchedulerOutput
from inference.engine.sequence import Sequence
from inference.engine.speculation.acceptance import (
    STEP_COST,
    best_num_drafts,
    can_draft,
    max_drafts_of,
    max_drafts_per_row,
    step_duration,
    update_acceptance,
)

NGRAM_SIZE = 3  # tokens that must have occurred before, in this order, to propose their followers
INDEX_CHUNK = 1024  # tokens of a long prompt that are indexed at once
INITIAL_ACCEPTANCE = 0.25


class NgramTable:
    """The n-grams of one sequence and its last proposal.

    acceptance   see update_acceptance; proposals count whether or not they were computed as drafts
    proposal     tokens that may follow the first `proposed_at` tokens
    """

    def __init__(self) -> None:
        self.acceptance = INITIAL_ACCEPTANCE
        self.proposal: list[int] = []
        self.proposed_at = 0
        self._positions: dict[tuple[int, ...], int] = {}
        self._num_indexed = NGRAM_SIZE

    def update(self, token_ids: list[int], num_drafts: int) -> None:
        """Score the last proposal against the tokens that followed, and propose `num_drafts` new ones."""
        new_token_ids = token_ids[self.proposed_at :]
        self.acceptance = update_acceptance(self.acceptance, self.proposal, new_token_ids)
        self._index_ngrams(token_ids)
        self.proposed_at = len(token_ids)
        position = self._positions.get(tuple(token_ids[-NGRAM_SIZE:]), len(token_ids))
        period = len(token_ids) - position  # beyond the last token the proposal repeats itself
        self.proposal = [token_ids[position + i % period] for i in range(num_drafts)] if period else []

    def _index_ngrams(self, token_ids: list[int]) -> None:
        """Record the position behind the last occurrence of each n-gram, except the one that ends the text.

        Indexes at most INDEX_CHUNK tokens per call.
        """
        start, end = self._num_indexed, min(len(token_ids), self._num_indexed + INDEX_CHUNK)
        if end > start:
            ngrams = zip(*(token_ids[start + i : end + i] for i in range(-NGRAM_SIZE, 0)), strict=True)
            self._positions.update(zip(ngrams, range(start, end), strict=True))
            self._num_indexed = end


class NgramProposer:
    """A Proposer (see proposer.py): it proposes as many draft tokens as are likely to save time.

    speculate: maximum number of drafts per sequence and step.
    """

    def __init__(self, kv_cache_manager: KVCacheManager, speculate: int) -> None:
        self.kv_cache_manager = kv_cache_manager
        self.speculate = speculate
        self._tables: dict[int, NgramTable] = {}

    def propose(self, scheduler_output: SchedulerOutput, step_budget: int) -> int:
        """Set the drafts of each scheduled sequence, and return their number.

        An answer with a grammar has none, and neither has a step that computes a prompt.
        """
        tables = self._tables
        self._tables = {}
        for sequence, _ in scheduler_output:
            sequence.draft_token_ids = []
            if can_draft(sequence):
                table = self._tables[sequence.id] = tables.get(sequence.id) or NgramTable()
                table.update(sequence.token_ids, self.speculate)
        max_drafts = min(self.speculate, max_drafts_per_row(scheduler_output, step_budget))
        self._assign_drafts([sequence for sequence, _ in scheduler_output], max_drafts)
        return sum(len(sequence.draft_token_ids) for sequence, _ in scheduler_output)

    def is_worthwhile(self, scheduler_output: SchedulerOutput, step_budget: int) -> bool:
        num_drafts = self.propose(scheduler_output, step_budget)
        for sequence, _ in scheduler_output:
            sequence.draft_token_ids = []
        return num_drafts > 0

    def discard(self) -> None:
        self._tables = {}

    def _assign_drafts(self, sequences: list[Sequence], max_drafts: int) -> None:
        """Give as many drafts to each sequence whose proposal is likely enough to be worth computing.

        The number is the same for all: the rows of a step are all computed as wide as the widest.
        """
        tables = {s: self._tables[s.id] for s in sequences if s.id in self._tables}
        tables = {
            s: table for s, table in tables.items() if table.proposal and table.acceptance * STEP_COST > 1
        }
        acceptances = [table.acceptance for table in tables.values()]
        durations = [step_duration(count, len(sequences)) for count in range(max_drafts + 1)]
        num_drafts = best_num_drafts(acceptances, len(sequences), durations)
        for sequence, table in tables.items():
            num_fitting = max_drafts_of(sequence, self.kv_cache_manager)
            sequence.draft_token_ids = table.proposal[: min(num_drafts, num_fitting)]
