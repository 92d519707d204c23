"""Divides a batch into batches of some of its rows, and joins their logits again. Knows indices only."""

from collections.abc import Sequence
from itertools import accumulate

import torch

from inference.model.batch import Batch, GroupTable, PendingTokens


def select_rows(batch: Batch, rows: Sequence[int], with_ops: bool) -> Batch:
    """The batch of the rows with these indices, ascending. with_ops: it carries out the batch's cache ops."""
    tokens = [token for row in rows for token in tokens_of(batch, row)]
    place = {token: index for index, token in enumerate(tokens)}
    numbers = [batch.adapter_ids[row] for row in rows]
    return Batch(
        token_ids=[batch.token_ids[token] for token in tokens],
        positions=[batch.positions[token] for token in tokens],
        slot_mapping=[batch.slot_mapping[token] for token in tokens],
        query_start_loc=list(accumulate((len(tokens_of(batch, row)) for row in rows), initial=0)),
        seq_lens=[batch.seq_lens[row] for row in rows],
        rows=[batch.rows[row] for row in rows],
        logits_indices=[place[token] for token in batch.logits_indices if token in place],
        cache_ops=batch.cache_ops if with_ops else (),
        encoder_inputs={
            batch.rows[row]: batch.encoder_inputs[batch.rows[row]]
            for row in rows
            if batch.rows[row] in batch.encoder_inputs
        },
        page_table=tuple(batch.page_table[row] for row in rows) if batch.page_table else (),
        pending_tokens=select_pending(batch.pending_tokens, place),
        pooled_rows={
            index: batch.pooled_rows[row] for index, row in enumerate(rows) if row in batch.pooled_rows
        },
        window_tables=[
            GroupTable(
                [table.page_table[row] for row in rows], [table.slot_mapping[token] for token in tokens]
            )
            for table in batch.window_tables
        ],
        adapter_ids=numbers if any(numbers) else [],
    )


def select_pending(pending: PendingTokens | None, place: dict[int, int]) -> PendingTokens | None:
    """The pending tokens among those that have a place in the new batch; None if there are none."""
    if pending is None:
        return None
    pairs = zip(pending.token_indices, pending.sample_indices, strict=True)
    selected = [(place[token], sample) for token, sample in pairs if token in place]
    if not selected:
        return None
    return PendingTokens(
        [token for token, _ in selected], [each for _, each in selected], pending.sampled_ids
    )


def tokens_of(batch: Batch, row: int) -> range:
    return range(batch.query_start_loc[row], batch.query_start_loc[row + 1])


def logits_order(batch: Batch, groups: Sequence[Sequence[int]]) -> list[int]:
    """Where each of the batch's logits is among the concatenated logits of its groups."""
    group_of_row = {row: group for group, rows in enumerate(groups) for row in rows}
    row_of_token = [row for row in range(len(batch.rows)) for _ in tokens_of(batch, row)]
    group_of_logits = [group_of_row[row_of_token[token]] for token in batch.logits_indices]
    return invert(sorted(range(len(group_of_logits)), key=group_of_logits.__getitem__))


def pooled_order(batch: Batch, groups: Sequence[Sequence[int]]) -> list[int]:
    """Where each of the batch's pooled rows is among those of its groups."""
    group_of_row = {row: group for group, rows in enumerate(groups) for row in rows}
    group_of_pooled = [group_of_row[row] for row in batch.pooled_rows]
    return invert(sorted(range(len(group_of_pooled)), key=group_of_pooled.__getitem__))


def invert(permutation: Sequence[int]) -> list[int]:
    places = [0] * len(permutation)
    for place, index in enumerate(permutation):
        places[index] = place
    return places


def join_rows(groups: Sequence[torch.Tensor], order: Sequence[int]) -> torch.Tensor:
    """The rows of all groups, in this order."""
    all_rows = torch.cat(list(groups))
    return all_rows.index_select(0, torch.tensor(order, dtype=torch.int64, device=all_rows.device))
