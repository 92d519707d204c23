"""What a step yields for each sequence, from the tokens that it sampled and the sums that it computed."""

import logging
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field
from math import isfinite

import torch

from inference.engine.banned_tokens import DEAD_END_MESSAGE, NO_ALLOWED_TOKEN_MESSAGE
from inference.engine.build_batch import PreparedBatch
from inference.engine.pooled_sum import PooledSum, add_chunks
from inference.engine.sampling.sampler import NAN_LOGITS, NO_ALLOWED_TOKEN, SampledToken, advance_matchers
from inference.engine.sequence import Matcher, Sequence
from inference.engine.step_output import PromptLogprob
from inference.errors import BadRequest, Internal, ServerError

log = logging.getLogger(__name__)

MODEL_FAILED = "the model failed on this request"


@dataclass(slots=True)
class StepResult:
    """The result of a step for one sequence.

    num_scheduled_tokens  tokens computed, drafts not counted
    sampled_tokens        empty if the sequence was not sampled; else the next token, and one more for each
                          accepted draft
    prompt_logprobs       scores of the prompt tokens that this step computed
    pooled_sum            the sum of its hidden states up to this step, if the sequence is pooled
    error                 why the sequence failed; None if it did not
    has_nan               NaN was written behind a rejected draft, so the sequence's KV memory is unusable
    """

    sequence: Sequence
    num_scheduled_tokens: int = 0
    sampled_tokens: list[SampledToken] = field(default_factory=list)
    prompt_logprobs: list[PromptLogprob] = field(default_factory=list)
    error: ServerError | None = None
    has_nan: bool = False
    pooled_sum: PooledSum | None = None


def add_sampled_tokens(
    prepared: PreparedBatch, sampled_tokens: list[SampledToken], results: list[StepResult]
) -> None:
    """Give each sampled sequence its tokens, without drafts that are rejected, and advance its matcher."""
    tokens_by_id: dict[int, list[SampledToken]] = {}
    for sequence, token in zip(prepared.sampled_sequences, sampled_tokens, strict=True):
        tokens_by_id.setdefault(sequence.id, []).append(token)
    for result in results:
        tokens = tokens_by_id.get(result.sequence.id, [])
        if len(tokens) > 1:
            result.has_nan = any(token.id == NAN_LOGITS for token in tokens[1:])
            tokens = accepted_drafts(tokens, result.sequence)
        result.sampled_tokens = tokens
        if tokens and tokens[0].id < 0:
            result.error = error_for(tokens[0].id, result.sequence.matcher)
        elif result.sequence.matcher is not None:
            advance_matcher(result)


def advance_matcher(result: StepResult) -> None:
    token_ids = [token.id for token in result.sampled_tokens]
    try:
        advance_matchers([result.sequence] * len(token_ids), token_ids)
    except Exception:  # of a grammar library; the other sequences' matchers must not advance twice
        log.exception("matcher failed sequence=%d", result.sequence.id)
        result.error = Internal(MODEL_FAILED)


def accepted_drafts(sampled_tokens: list[SampledToken], sequence: Sequence) -> list[SampledToken]:
    """The sampled tokens up to the first rejected draft or stop token.

    sampled_tokens: the token sampled behind the last token, then one behind each draft.
    """
    accepted = sampled_tokens[:1]
    for draft_id, token in zip(sequence.draft_token_ids, sampled_tokens[1:], strict=False):
        if accepted[-1].id != draft_id or draft_id in sequence.stop_token_ids or token.id < 0:
            break
        accepted.append(token)
    return accepted


def fail_if_not_finite(prepared: PreparedBatch, finite: list[bool], results: list[StepResult]) -> None:
    """Fail sequences whose prompt chunk yields NaN or infinity."""
    finite_by_id = dict(zip(prepared.nan_checks, finite, strict=True))
    for result in results:
        if not finite_by_id.get(result.sequence.id, True):
            result.error = error_for(NAN_LOGITS)


def add_pooled_sums(
    chunk_sums: torch.Tensor, pooled: SequenceOf[Sequence], results: list[StepResult]
) -> None:
    """Add the sums (P, d) of the step's chunks to those of the sequences. pooled: the sequences, (P,)."""
    pooled_sums = add_chunks(chunk_sums, [sequence.pooled_sum for sequence in pooled])
    sums_by_id = {each.id: pooled_sum for each, pooled_sum in zip(pooled, pooled_sums, strict=True)}
    for result in results:
        result.pooled_sum = sums_by_id.get(result.sequence.id)
        if result.pooled_sum is not None and not isfinite(result.pooled_sum.length):
            result.error = error_for(NAN_LOGITS)


def error_for(token_id: int, matcher: Matcher | None = None) -> ServerError:
    """The error of a sequence that got no token: token_id is NO_ALLOWED_TOKEN or NAN_LOGITS.

    matcher: of the sequence; None: it has none.
    """
    if token_id == NO_ALLOWED_TOKEN:
        reason = matcher.failure if matcher else ""
        return BadRequest("", DEAD_END_MESSAGE.format(reason) if reason else NO_ALLOWED_TOKEN_MESSAGE)
    return Internal("the model's output for this request is not a number")
