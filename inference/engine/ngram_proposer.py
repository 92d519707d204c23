"""N-gram speculation: proposes draft tokens from earlier repetitions in the same sequence.

If a sequence repeats itself, the tokens that followed an earlier occurrence of its last n-gram are likely to
follow again (Saxena, "Prompt Lookup Decoding", 2023). A draft is accepted only if the sampler selects the
same token, so drafts never change an answer. Knows sequences and the scheduler's output; knows no logits.
"""

from collections.abc import Sequence as SequenceOf

from inference.engine.kv.manager import KVCacheManager
from inference.engine.scheduler import SchedulerOutput
from inference.engine.sequence import Sequence

NGRAM_SIZE = 3  # tokens that must have occurred before, in this order, to propose their followers
# Cost of drafts, measured on CPUs with models of 5 and 77 million parameters.
STEP_COST = 16  # fixed cost of a step, in tokens
SECOND_TOKEN_COST = 0.4  # share by which a second token slows a step of one: no longer matrix × vector
# Tokens of a step with drafts, all rows counted as wide as the widest: a larger step may need a second call.
MAX_DRAFT_TOKENS = 32
INDEX_CHUNK = 1024  # tokens of a long prompt that are indexed at once
INITIAL_ACCEPTANCE, MAX_ACCEPTANCE = 0.25, 0.99
ACCEPTANCE_RATE = 1 / 8  # weight of the latest draft in the estimate


class NgramTable:
    """The n-grams of one sequence and its last proposal.

    acceptance   estimated probability that the next draft is right: a moving average over the latest
                 proposals, whether or not they were computed as drafts
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
        self._update_acceptance(token_ids[self.proposed_at :])
        self._index_ngrams(token_ids)
        self.proposed_at = len(token_ids)
        position = self._positions.get(tuple(token_ids[-NGRAM_SIZE:]), len(token_ids))
        period = len(token_ids) - position  # beyond the last token the proposal repeats itself
        self.proposal = [token_ids[position + i % period] for i in range(num_drafts)] if period else []

    def _update_acceptance(self, new_token_ids: list[int]) -> None:
        for draft_id, token_id in zip(self.proposal, new_token_ids, strict=False):
            self.acceptance += ACCEPTANCE_RATE * ((draft_id == token_id) - self.acceptance)
            if draft_id != token_id:
                break
        self.acceptance = min(self.acceptance, MAX_ACCEPTANCE)

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
    """A Proposer (see pipeline.py): it proposes as many draft tokens as are likely to save time.

    speculate: maximum number of drafts per sequence and step.
    """

    def __init__(self, kv_cache_manager: KVCacheManager, speculate: int) -> None:
        self.kv_cache_manager = kv_cache_manager
        self.speculate = speculate
        self._tables: dict[int, NgramTable] = {}

    def propose(self, scheduler_output: SchedulerOutput, token_budget: int) -> int:
        """Set the drafts of each scheduled sequence, and return their number.

        The step may compute `token_budget` tokens in all. A step that computes a prompt uses the hardware
        well and has no drafts. An answer with a grammar has none either.
        """
        tables = self._tables
        self._tables = {}
        for sequence, _ in scheduler_output:
            sequence.draft_token_ids = []
            if can_draft(sequence):
                table = self._tables[sequence.id] = tables.get(sequence.id) or NgramTable()
                table.update(sequence.token_ids, self.speculate)
        if all(num_tokens == 1 for _, num_tokens in scheduler_output):
            tokens_per_row = min(MAX_DRAFT_TOKENS, token_budget) // len(scheduler_output)
            max_drafts = min(self.speculate, tokens_per_row - 1)
            self._assign_drafts([sequence for sequence, _ in scheduler_output], max_drafts)
        return sum(len(sequence.draft_token_ids) for sequence, _ in scheduler_output)

    def _assign_drafts(self, sequences: list[Sequence], max_drafts: int) -> None:
        """Give as many drafts to each sequence whose proposal is likely enough to be worth computing.

        The number is the same for all: the rows of a step are all computed as wide as the widest.
        """
        tables = {s: self._tables[s.id] for s in sequences if s.id in self._tables}
        tables = {
            s: table for s, table in tables.items() if table.proposal and table.acceptance * STEP_COST > 1
        }
        acceptances = [table.acceptance for table in tables.values()]
        num_drafts = best_num_drafts(acceptances, len(sequences), max_drafts)
        for sequence, table in tables.items():
            num_fitting = max_drafts_of(sequence, self.kv_cache_manager)
            sequence.draft_token_ids = table.proposal[: min(num_drafts, num_fitting)]


def can_draft(sequence: Sequence) -> bool:
    return sequence.num_uncomputed_tokens == 1 and sequence.num_output_tokens > 0 and sequence.matcher is None


def max_drafts_of(sequence: Sequence, kv_cache_manager: KVCacheManager) -> int:
    """Drafts that fit the KV memory and leave one more token within the maximum length."""
    max_len = min(sequence.max_len, kv_cache_manager.context) - 1
    return max(0, min(max_len - len(sequence.token_ids), kv_cache_manager.num_free_tokens(sequence)))


def best_num_drafts(acceptances: SequenceOf[float], num_rows: int, max_drafts: int) -> int:
    """The number of drafts per sequence that saves most time in a step of `num_rows` rows.

    acceptances: NgramTable.acceptance of each sequence with a proposal. A draft saves a step if it and all
    drafts before it are accepted. All rows are computed as wide as the widest.
    """
    best, fastest, gain = 0, 1.0, 0.0
    for num_drafts in range(1, max_drafts + 1):
        gain += sum(acceptance**num_drafts for acceptance in acceptances) / num_rows
        cost = num_drafts * num_rows / (STEP_COST + num_rows) + (SECOND_TOKEN_COST if num_rows == 1 else 0)
        if (1 + gain) / (1 + cost) > fastest:
            best, fastest = num_drafts, (1 + gain) / (1 + cost)
    return best
