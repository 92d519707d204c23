"""Builds the Batch of a step from the scheduler's output, and records what each row of logits is for.

Knows sequences, the shape of the KV memory and the Batch; computes nothing.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from torch import Tensor

from inference.engine.kv.manager import KVCacheManager
from inference.engine.scheduling.scheduler import SchedulerOutput
from inference.engine.sequence import Sequence
from inference.model.batch import Batch, CacheOp, GroupTable, PendingTokens, slots_of

PENDING_ID = 0  # placeholder of a token id that the host does not know yet


class PendingIds(NamedTuple):
    """Tokens that were sampled and are not known to the host.

    token_ids  (S,) int64, on the device
    index_of   sequence id → index into token_ids
    """

    token_ids: Tensor
    index_of: dict[int, int]


@dataclass(frozen=True, slots=True)
class PromptLogprobRows:
    """Rows [first_row, first_row + len(token_ids)) of the logits score these prompt tokens."""

    sequence: Sequence
    first_row: int
    token_ids: SequenceOf[int]


@dataclass(slots=True)
class PreparedBatch:
    """A Batch, and what each row of its logits is for.

    sampled_sequences    the sequences to sample. A sequence with drafts is listed once for its last token and
                         once for each draft, as if all drafts before were accepted (Sequence.with_drafts)
    sampled_rows         the row of the logits from which sampled_sequences[i] is sampled
    prompt_logprob_rows  rows that score prompt tokens
    nan_checks           sequence id → row at the last computed token, for sequences with no other row there:
                         it shows whether the computation yielded finite numbers. Checked in every chunk,
                         before prefix caching can give its pages to other sequences
    """

    batch: Batch
    sampled_sequences: list[Sequence] = field(default_factory=list)
    sampled_rows: list[int] = field(default_factory=list)
    prompt_logprob_rows: list[PromptLogprobRows] = field(default_factory=list)
    nan_checks: dict[int, int] = field(default_factory=dict)

    def drop(self, sequence_ids: set[int]) -> None:
        """Leave out the rows of these sequences: their results are not wanted. The Batch stays as it is."""
        rows = [
            (sequence, row)
            for sequence, row in zip(self.sampled_sequences, self.sampled_rows, strict=True)
            if sequence.id not in sequence_ids
        ]
        self.sampled_sequences, self.sampled_rows = [s for s, _ in rows], [row for _, row in rows]
        self.nan_checks = {id: row for id, row in self.nan_checks.items() if id not in sequence_ids}


def build_batch(
    scheduler_output: SchedulerOutput,
    cache_ops: SequenceOf[CacheOp],
    kv_cache_manager: KVCacheManager,
    pending_ids: PendingIds | None = None,
) -> PreparedBatch:
    """The Batch of the scheduled sequences, which are in the order of rows.

    A sequence of as many tokens as the context is full and is not sampled. pending_ids: the pending tokens of
    sequences that have one.
    """
    context, slots_per_page = kv_cache_manager.context, kv_cache_manager.slots_per_page
    encoder_inputs: dict[int, SequenceOf[int]] = {}
    pending = PendingTokens([], [], pending_ids.token_ids) if pending_ids else None
    page_table = tuple([sequence.pages for sequence, _ in scheduler_output if sequence.pages])
    batch = empty_batch(cache_ops, encoder_inputs, page_table, pending)
    prepared = PreparedBatch(batch)
    token_ids, logits_indices = batch.token_ids, batch.logits_indices
    for sequence, num_scheduled_tokens in scheduler_output:
        start = sequence.num_computed_tokens + sequence.num_in_flight_tokens
        end = start + num_scheduled_tokens
        if sequence.request.prompt_logprobs is not None:
            logits_indices += add_prompt_logprob_rows(prepared, sequence, end)
        token_ids += sequence.token_ids[start:end]
        if end > len(sequence.token_ids):
            assert pending_ids and pending
            pending.token_indices.append(len(token_ids))
            pending.sample_indices.append(pending_ids.index_of[sequence.id])
            token_ids.append(PENDING_ID)
        if end == sequence.num_tokens and sequence.may_gain_token(context):
            prepared.sampled_sequences.append(sequence)
            prepared.sampled_rows.append(len(logits_indices))
            logits_indices.append(len(token_ids) - 1)
            if sequence.draft_token_ids:
                add_drafts(prepared, sequence)
        elif not logits_indices or logits_indices[-1] < len(token_ids) - 1:
            prepared.nan_checks[sequence.id] = len(logits_indices)
            logits_indices.append(len(token_ids) - 1)
        if sequence.pooling and (sequence.pooling == "mean" or end == sequence.num_tokens):
            batch.pooled_rows[len(batch.rows)] = sequence.pooling
        if sequence.encoder_ids and not start:
            encoder_inputs[sequence.row] = sequence.encoder_ids
        length = start + len(token_ids) - batch.query_start_loc[-1]
        batch.positions.extend(range(start, length))
        batch.slot_mapping.extend(slots_of(sequence.pages or (sequence.row,), slots_per_page, start, length))
        batch.query_start_loc.append(len(token_ids))
        batch.seq_lens.append(length)
        batch.rows.append(sequence.row)
        batch.adapter_ids.append(sequence.request.adapter_number)
    if not any(batch.adapter_ids):
        batch.adapter_ids.clear()
    if scheduler_output and scheduler_output[0][0].window_pages:
        batch.window_tables.extend(make_window_tables(batch, scheduler_output, slots_per_page))
    return prepared


def empty_batch(
    cache_ops: SequenceOf[CacheOp],
    encoder_inputs: Mapping[int, SequenceOf[int]],
    page_table: SequenceOf[SequenceOf[int]],
    pending_tokens: PendingTokens | None,
) -> Batch:
    """A Batch to which rows can be added. See Batch."""
    return Batch(
        token_ids=[],
        positions=[],
        slot_mapping=[],
        query_start_loc=[0],
        seq_lens=[],
        rows=[],
        logits_indices=[],
        cache_ops=cache_ops,
        encoder_inputs=encoder_inputs,
        page_table=page_table,
        pending_tokens=pending_tokens,
    )


def make_window_tables(
    batch: Batch, scheduler_output: SchedulerOutput, page_size: int
) -> Iterator[GroupTable]:
    """Where each window group has the tokens of the batch."""
    spans = list(zip(batch.num_computed_tokens, batch.seq_lens, strict=True))
    for page_table in zip(*(sequence.window_pages for sequence, _ in scheduler_output), strict=True):
        rows = zip(page_table, spans, strict=True)
        slots = (slots_of(pages, page_size, start, end) for pages, (start, end) in rows)
        yield GroupTable(page_table, list(chain.from_iterable(slots)))


def add_drafts(prepared: PreparedBatch, sequence: Sequence) -> None:
    """Add the draft tokens of the batch's last sequence, and sample it behind each of them."""
    token_ids, logits_indices = prepared.batch.token_ids, prepared.batch.logits_indices
    for num_drafts, draft_id in enumerate(sequence.draft_token_ids, 1):
        prepared.sampled_sequences.append(sequence.with_drafts(num_drafts))
        prepared.sampled_rows.append(len(logits_indices))
        logits_indices.append(len(token_ids))
        token_ids.append(draft_id)


def add_prompt_logprob_rows(prepared: PreparedBatch, sequence: Sequence, end: int) -> range:
    """Score the prompt tokens up to position `end`; returns the batch positions whose logits score them.

    The logits at position p - 1 score the token at p. Tokens scored before a preemption are not scored again.
    """
    first = max(sequence.num_computed_tokens, len(sequence.prompt_logprobs) - 1)
    last = min(end, sequence.num_prompt_tokens - 1)
    if first >= last:
        return range(0)
    batch = prepared.batch
    prepared.prompt_logprob_rows.append(
        PromptLogprobRows(sequence, len(batch.logits_indices), sequence.token_ids[first + 1 : last + 1])
    )
    offset = len(batch.token_ids) - sequence.num_computed_tokens
    return range(first + offset, last + offset)
