"""Estimates the acceptance rate of drafts, and how many of them are worth computing.

A draft is accepted only if the sampler selects the same token, so drafts never change an answer.
"""

from collections.abc import Sequence as SequenceOf

from inference.engine.kv.manager import KVCacheManager
from inference.engine.scheduling.scheduler import SchedulerOutput
from inference.engine.sequence import Sequence

# Cost of drafts, measured on CPUs with models of 5 and 77 million parameters.
STEP_COST = 16  # fixed cost of a step, in tokens
SECOND_TOKEN_COST = 0.4  # share by which a second token slows a step of one: no longer matrix × vector
# Tokens of a step with drafts, all rows counted as wide as the widest: a larger step may need a second call.
MAX_DRAFT_TOKENS = 32
MAX_ACCEPTANCE = 0.99
ACCEPTANCE_RATE = 1 / 8  # weight of the latest draft in the estimate


def can_draft(sequence: Sequence) -> bool:
    return sequence.num_uncomputed_tokens == 1 and sequence.num_output_tokens > 0 and sequence.matcher is None


def max_drafts_of(sequence: Sequence, kv_cache_manager: KVCacheManager) -> int:
    """Drafts that fit the KV memory and leave one more token within the maximum length."""
    max_len = min(sequence.max_len, kv_cache_manager.context) - 1
    return max(0, min(max_len - len(sequence.token_ids), kv_cache_manager.num_free_tokens(sequence)))


def max_drafts_per_row(scheduler_output: SchedulerOutput, step_budget: int) -> int:
    """Drafts that each row of the step may have at most.

    The step may compute `step_budget` tokens in all. A step that computes a prompt uses the hardware well
    and has no drafts.
    """
    if any(num_tokens > 1 for _, num_tokens in scheduler_output):
        return 0
    return max(0, min(MAX_DRAFT_TOKENS, step_budget) // len(scheduler_output) - 1)


def update_acceptance(acceptance: float, draft_ids: SequenceOf[int], new_token_ids: SequenceOf[int]) -> float:
    """The estimated probability that the next draft is right, after the tokens that followed are known.

    A moving average over the latest drafts up to the first wrong one, whether or not they were computed.
    """
    for draft_id, token_id in zip(draft_ids, new_token_ids, strict=False):
        acceptance += ACCEPTANCE_RATE * ((draft_id == token_id) - acceptance)
        if draft_id != token_id:
            break
    return min(acceptance, MAX_ACCEPTANCE)


def best_num_drafts(acceptances: SequenceOf[float], num_rows: int, durations: SequenceOf[float]) -> int:
    """The number of drafts per sequence that saves most time in a step of `num_rows` rows.

    acceptances: the estimate of each sequence with a proposal. durations: of a step with 0, 1, 2, … drafts a
    row, the time to propose them included, in any unit. A draft saves a step if it and all drafts before it
    are accepted. All rows are computed as wide as the widest.
    """
    best, fastest, gain = 0, 1 / durations[0], 0.0
    for num_drafts, duration in enumerate(durations[1:], 1):
        gain += sum(acceptance**num_drafts for acceptance in acceptances) / num_rows
        if (1 + gain) / duration > fastest:
            best, fastest = num_drafts, (1 + gain) / duration
    return best


def step_duration(num_drafts: int, num_rows: int) -> float:
    """Estimated time of a step, in times of a step of one token."""
    second_token = SECOND_TOKEN_COST if num_drafts and num_rows == 1 else 0
    base = STEP_COST + num_rows
    return (base + num_drafts * num_rows + second_token * base) / (STEP_COST + 1)
