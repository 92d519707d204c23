"""A batch is divided into batches of some of its rows, and their logits come back in its order."""

from collections.abc import Sequence

import pytest
import torch

from inference.model.batch import Batch, PendingTokens, make_batch
from inference.model.lora.split import join_rows, logits_order, pooled_order, select_rows


@pytest.fixture
def batch() -> Batch:
    """Rows of 2, 1, 3 and 1 tokens, whose ids are 10 × row + place."""
    batch = make_batch(
        [0, 1, 10, 20, 21, 22, 30],
        (0, 2, 3, 6, 7),
        (4, 0, 2, 9),
        range(4),
        (1, 2, 4, 5, 6),
        page_table=[[row] for row in range(4)],
        page_size=16,
        num_windows=1,
    )
    batch.pooled_rows.update({0: "mean", 2: "mean", 3: "last"})
    batch.adapter_ids.extend((7, 0, 8, 7))
    return batch


def test_selected_rows_are_a_batch_of_their_own(batch: Batch) -> None:
    selected = select_rows(batch, [0, 3], with_ops=False)
    assert selected.token_ids == [0, 1, 30] and selected.query_start_loc == [0, 2, 3]
    assert selected.positions == [4, 5, 9] and selected.slot_mapping == [4, 5, 48 + 9]
    assert selected.seq_lens == [6, 10] and selected.rows == [0, 3] and selected.logits_indices == [1, 2]
    assert selected.page_table == ([0], [3]) and selected.window_tables[0].slot_mapping == [4, 5, 57]
    assert selected.adapter_ids == [7, 7] and selected.pooled_rows == {0: "mean", 1: "last"}


def test_rows_without_an_adapter_name_none(batch: Batch) -> None:
    assert select_rows(batch, [1], with_ops=False).adapter_ids == []


def test_pending_tokens_follow_their_rows(batch: Batch) -> None:
    ids = torch.tensor([5, 6])
    pending = Batch(
        *[getattr(batch, name) for name in batch.__slots__[:10]], PendingTokens([2, 6], [1, 0], ids)
    )
    object.__setattr__(pending, "adapter_ids", batch.adapter_ids)
    selected = select_rows(pending, [0, 3], with_ops=False)
    assert selected.pending_tokens is not None and selected.pending_tokens.token_indices == [2]
    assert selected.pending_tokens.sample_indices == [0]
    assert select_rows(pending, [2], with_ops=False).pending_tokens is None


@pytest.mark.parametrize("groups", [([0, 3], [1], [2]), ([1, 2], [0, 3]), ([3], [2], [1], [0])])
def test_logits_and_sums_come_back_in_the_order_of_the_batch(
    batch: Batch, groups: Sequence[Sequence[int]]
) -> None:
    selected = [select_rows(batch, rows, with_ops=False) for rows in groups]
    logits = [torch.tensor([each.token_ids[i] for i in each.logits_indices])[:, None] for each in selected]
    all_rows = join_rows(logits, logits_order(batch, groups))
    assert all_rows.flatten().tolist() == [batch.token_ids[i] for i in batch.logits_indices]
    sums = [
        torch.tensor([[float(each.rows[i])] for i in each.pooled_rows])
        for each in selected
        if each.pooled_rows
    ]
    assert join_rows(sums, pooled_order(batch, groups)).flatten().tolist() == [0, 2, 3]
