"""Logits processors: functions that change the logits of single tokens, their order, and their sequences.

A processor changes logits (W, V) in place, in the given rows only. Processors run before the warpers and
apply to greedy rows too. Knows token ids only.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as SequenceOf
from operator import attrgetter

import torch
from torch import Tensor

from inference.engine.banned_tokens import BannedTokens, find_followers, to_tensor
from inference.engine.sampling.penalties import (
    apply_count_penalties,
    apply_repetition_penalty,
    apply_tgi_frequency_penalty,
    apply_window_penalty,
)
from inference.engine.sampling.scatter import (
    NEG_INF,
    SequencesByRow,
    fill,
    find_indices,
    find_indices_and_values,
    index_tensor,
)
from inference.engine.sampling.watermark import add_watermark
from inference.engine.sequence import LogitsProcessor, Sequence
from inference.model.device_copy import to_device
from inference.sampling import Sampling

DEFAULTS = Sampling()


def add_logit_bias(logits: Tensor, rows: SequencesByRow) -> None:
    """Add the request's bias to the tokens it names."""
    indices, biases = find_indices_and_values(
        logits, {row: s.request.sampling.logit_bias for row, s in rows.items()}
    )
    logits[indices] += biases


def forbid_repeated_ngrams(logits: Tensor, rows: SequencesByRow) -> None:
    """Forbid tokens that would complete an n-gram of no_repeat_ngram_size tokens a second time.

    As transformers' NoRepeatNGramLogitsProcessor.
    """
    _mask_out(logits, {row: _repeated_ngram_ids(s) for row, s in rows.items()})


def forbid_banned_tokens(logits: Tensor, rows: SequencesByRow) -> None:
    """Forbid single tokens.

    As transformers' NoBadWordsLogitsProcessor, except that stop tokens are not exempt.
    """
    fill(
        logits, find_indices(logits, {row: _banned_tokens(s).banned_ids for row, s in rows.items()}), NEG_INF
    )


def forbid_bad_words(logits: Tensor, rows: SequencesByRow) -> None:
    """Forbid tokens that would complete a banned run of several tokens, as `forbid_banned_tokens` does."""
    _mask_out(logits, {row: _banned_tokens(s).completing_ids(s.token_ids) for row, s in rows.items()})


def forbid_first_tokens(logits: Tensor, rows: SequencesByRow) -> None:
    """Forbid tokens that must not begin an answer."""
    _mask_out(logits, {row: s.request.sampling.banned_first for row, s in rows.items()})


def allow_only(logits: Tensor, rows: SequencesByRow) -> None:
    """Forbid all tokens except allowed_token_ids and, with eos_allowed, the stop tokens."""
    indices = find_indices(logits, {row: _banned_tokens(s).allowed_ids for row, s in rows.items()})
    allowed_values = logits[indices]
    logits.index_fill_(0, index_tensor(rows, logits), NEG_INF)
    logits[indices] = allowed_values


def forbid_stop_tokens(logits: Tensor, rows: SequencesByRow) -> None:
    """Forbid the stop tokens."""
    _mask_out(logits, {row: s.stop_token_ids for row, s in rows.items()})


def apply_grammar(logits: Tensor, rows: SequencesByRow) -> None:
    """Forbid tokens that the matcher excludes, and stop tokens before min_tokens if another token is left."""
    row_index = index_tensor(rows, logits)
    row_logits = logits[row_index]
    mask_words = torch.stack([_bitmask_words(s, logits.shape[1]) for s in rows.values()])
    mask_words = to_device(mask_words, logits.device)
    bits = (mask_words[:, :, None] >> torch.arange(32, dtype=torch.int32, device=logits.device)) & 1
    allowed = bits.flatten(1)[:, : logits.shape[1]].bool()
    allowed_without_stop = allowed & (row_logits != NEG_INF)
    stop_ids = {i: to_tensor(s.stop_token_ids) for i, s in enumerate(rows.values()) if is_below_min_tokens(s)}
    fill(allowed_without_stop, find_indices(allowed_without_stop, stop_ids), False)
    allowed = torch.where(allowed_without_stop.any(-1, keepdim=True), allowed_without_stop, allowed)
    logits[row_index] = row_logits.masked_fill(~allowed, NEG_INF)


def is_below_min_tokens(sequence: Sequence) -> bool:
    """Whether the answer has fewer than min_tokens tokens."""
    return sequence.num_output_tokens < sequence.request.min_tokens


NOT_AMONG_WARPERS = attrgetter("penalties_come_first")
# If the request's warper order names the penalties, they are applied among the warpers instead.
REPETITION_PENALTIES = (
    LogitsProcessor(apply_repetition_penalty, ("repetition_penalty",)),
    LogitsProcessor(apply_window_penalty, ("penalty_window",)),
)
# vLLM's order, with TGI's watermark before the penalties; the constraint is last so that it always holds.
PROCESSORS = (
    LogitsProcessor(add_logit_bias, ("logit_bias",)),
    LogitsProcessor(add_watermark, ("watermark",)),
    *(penalty._replace(condition=NOT_AMONG_WARPERS) for penalty in REPETITION_PENALTIES),
    LogitsProcessor(apply_count_penalties, ("presence_penalty", "frequency_penalty")),
    LogitsProcessor(apply_tgi_frequency_penalty, ("tgi_frequency_penalty",)),
    LogitsProcessor(forbid_repeated_ngrams, ("no_repeat_ngram_size",)),
    LogitsProcessor(allow_only, ("allowed_token_ids",)),
    LogitsProcessor(forbid_banned_tokens, ("bad_words_ids",)),
    LogitsProcessor(forbid_bad_words, ("bad_words_ids",), attrgetter("banned_tokens.banned_sequences")),
    LogitsProcessor(forbid_first_tokens, ("banned_first",), applies=lambda s: not s.num_output_tokens),
    LogitsProcessor(
        forbid_stop_tokens,
        condition=lambda s: s.matcher is None and s.request.min_tokens > 0,
        applies=is_below_min_tokens,
    ),
    LogitsProcessor(apply_grammar, condition=attrgetter("matcher")),
)


def requested_processors(
    sequence: Sequence, processors: Iterable[LogitsProcessor]
) -> tuple[LogitsProcessor, ...]:
    """The processors that the request asks for, in order."""
    sampling, requested = sequence.request.sampling, []
    for processor in processors:
        is_requested = not processor.fields
        for field in processor.fields:
            is_requested |= getattr(sampling, field) != getattr(DEFAULTS, field)
        if is_requested and (processor.condition is None or processor.condition(sequence)):
            requested.append(processor)
    return tuple(requested)


def apply_processors(logits: Tensor, sequences: SequenceOf[Sequence]) -> Tensor:
    """As `apply_in_order`, with all PROCESSORS."""
    requested = {row: requested_processors(s, PROCESSORS) for row, s in enumerate(sequences)}
    return apply_in_order(logits, sequences, PROCESSORS, requested)


def apply_repetition_penalties(logits: Tensor, sequences: SequenceOf[Sequence]) -> Tensor:
    """As `apply_in_order`, with REPETITION_PENALTIES."""
    requested = {row: requested_processors(s, REPETITION_PENALTIES) for row, s in enumerate(sequences)}
    return apply_in_order(logits, sequences, REPETITION_PENALTIES, requested)


def apply_in_order(
    logits: Tensor,
    sequences: SequenceOf[Sequence],
    processors: Iterable[LogitsProcessor],
    requested: Mapping[int, tuple[LogitsProcessor, ...]],
) -> Tensor:
    """The logits with the processors applied, as a float32 copy; the same tensor if none applies.

    requested: row → those of the processors that its request asks for.
    """
    processed = logits
    for processor in processors:
        rows = {
            row: sequences[row]
            for row, of_row in requested.items()
            if processor in of_row and (processor.applies is None or processor.applies(sequences[row]))
        }
        if rows:
            processed = logits.to(torch.float32, copy=True) if processed is logits else processed
            processor.apply(processed, rows)
    return processed


def _mask_out(logits: Tensor, ids: Mapping[int, Iterable[int]]) -> None:
    fill(logits, find_indices(logits, {row: to_tensor(each) for row, each in ids.items()}), NEG_INF)


def _repeated_ngram_ids(sequence: Sequence) -> set[int]:
    size, token_ids = sequence.request.sampling.no_repeat_ngram_size, sequence.token_ids
    if len(token_ids) < size:
        return set()
    return find_followers(token_ids, token_ids[len(token_ids) + 1 - size :])


def _banned_tokens(sequence: Sequence) -> BannedTokens:
    assert sequence.banned_tokens is not None
    return sequence.banned_tokens


def _bitmask_words(sequence: Sequence, width: int) -> Tensor:
    """The matcher's bitmask, int32 (ceil(width / 32),); tokens beyond the mask are forbidden."""
    assert sequence.matcher is not None
    mask = sequence.matcher.token_bitmask()
    num_words = (width + 31) // 32
    if mask is None:
        return torch.full((num_words,), -1, dtype=torch.int32)
    return torch.nn.functional.pad(mask, (0, num_words - len(mask)))  # a negative pad truncates
