"""Which rows are computed in one call, and the indices of that call."""

import torch

from inference.model.batch import Batch, make_batch
from inference.model.contiguous.host_calls import ONE_ROW, group_rows, plan_calls

CPU = torch.device("cpu")


def batch(*rows: tuple[int, int, int], columns: int = 64) -> Batch:
    """Rows of (row, cached, tokens); the logits of every token are requested."""
    starts = [0]
    for _, _, tokens in rows:
        starts.append(starts[-1] + tokens)
    num_computed = [cached for _, cached, _ in rows]
    tokens = range(starts[-1])
    return make_batch(
        range(100, 100 + starts[-1]),
        starts,
        num_computed,
        [row for row, _, _ in rows],
        tokens,
        page_size=columns,
    )


def test_decoding_rows_share_a_call_around_a_row_in_prefill() -> None:
    assert group_rows(batch((0, 9, 1), (1, 0, 200), (2, 7, 1), columns=256), max_padding=32) == [[0, 2], [1]]


def test_short_adjacent_prompts_share_a_call() -> None:
    assert group_rows(batch((3, 0, 20), (4, 0, 30)), max_padding=32) == [[0, 1]]


def test_a_call_has_no_more_padding_than_allowed() -> None:
    assert group_rows(batch((0, 9, 1), (40, 9, 1)), max_padding=32) == [[0], [1]]


def test_without_padding_adjacent_rows_of_one_width_share_a_call() -> None:
    rows = batch((0, 9, 1), (1, 9, 1), (3, 9, 1))
    assert group_rows(rows, max_padding=0) == [[0, 1], [2]]


def test_without_padding_new_rows_are_computed_apart() -> None:
    assert group_rows(batch((0, 9, 1), (1, 0, 1)), max_padding=0) == [[0], [1]]


def test_one_row_per_call_groups_nothing() -> None:
    assert group_rows(batch((0, 9, 1), (1, 9, 1)), max_padding=ONE_ROW) == [[0], [1]]


def test_padding_is_at_the_end_of_its_row_and_is_never_written() -> None:
    (call,), order = plan_calls(batch((1, 4, 3), (2, 0, 1)), max_padding=32, device=CPU)
    assert order is None
    assert (call.first, call.num_rows, call.width, call.columns) == (1, 2, 3, 7)
    assert call.token_ids.tolist() == [[100, 101, 102], [103, 0, 0]]
    assert call.positions.tolist() == [[4, 5, 6], [0, 0, 0]]
    assert call.slot_mapping.tolist() == [68, 69, 70, 128]
    assert call.real is not None and call.real.tolist() == [0, 1, 2, 3]
    assert not call.uniform


def test_rows_of_one_length_are_uniform() -> None:
    (call,), _ = plan_calls(batch((0, 5, 2), (1, 5, 2)), max_padding=32, device=CPU)
    assert call.uniform and call.real is None and call.logits_indices is None


def test_the_order_restores_the_requested_order_of_logits() -> None:
    calls, order = plan_calls(batch((0, 9, 2), (1, 0, 50), (2, 7, 2)), max_padding=32, device=CPU)
    together = torch.cat(
        [call.token_ids.flatten() for call in calls if call.logits_indices is None] or [torch.empty(0)]
    )
    logits_by_call = [
        c.token_ids.flatten() if c.logits_indices is None else c.token_ids.flatten()[c.logits_indices]
        for c in calls
    ]
    assert order is not None and len(together) > 0
    assert torch.cat(logits_by_call)[order].tolist() == list(range(100, 154))
