"""Which rows are computed together, and the indices of their call."""

import torch

from inference.model.batch import Batch
from inference.model.slots.plan import ALONE, groups, plan

CPU = torch.device("cpu")


def batch(*rows: tuple[int, int, int]) -> Batch:
    """Rows (row, cached, tokens); the logits of every token wanted."""
    starts = [0]
    for _, _, tokens in rows:
        starts.append(starts[-1] + tokens)
    held = [cached for _, cached, _ in rows]
    return Batch(range(100, 100 + starts[-1]), starts, held, [row for row, _, _ in rows], range(starts[-1]))


def test_decoding_rows_share_a_call_around_one_that_takes_a_prompt() -> None:
    assert groups(batch((0, 9, 1), (1, 0, 200), (2, 7, 1)), spare=32) == [[0, 2], [1]]


def test_short_prompts_side_by_side_share_a_call() -> None:
    assert groups(batch((3, 0, 20), (4, 0, 30)), spare=32) == [[0, 1]]


def test_a_call_holds_no_more_padding_than_is_spare() -> None:
    assert groups(batch((0, 9, 1), (40, 9, 1)), spare=32) == [[0], [1]]


def test_without_any_to_spare_rows_of_one_width_share_a_call_where_they_touch() -> None:
    rows = batch((0, 9, 1), (1, 9, 1), (3, 9, 1))
    assert groups(rows, spare=0) == [[0, 1], [2]]


def test_without_any_to_spare_rows_that_begin_are_apart() -> None:
    assert groups(batch((0, 9, 1), (1, 0, 1)), spare=0) == [[0], [1]]


def test_alone_means_alone() -> None:
    assert groups(batch((0, 9, 1), (1, 9, 1)), spare=ALONE) == [[0], [1]]


def test_padding_stands_where_its_row_ends_and_is_never_written() -> None:
    (call,), order = plan(batch((1, 4, 3), (2, 0, 1)), columns=64, spare=32, device=CPU)
    assert order is None
    assert (call.first, call.num_rows, call.width, call.columns) == (1, 2, 3, 7)
    assert call.ids.tolist() == [[100, 101, 102], [103, 0, 0]]
    assert call.positions.tolist() == [[4, 5, 6], [0, 0, 0]]
    assert call.slots.tolist() == [68, 69, 70, 128]
    assert call.real is not None and call.real.tolist() == [0, 1, 2, 3]
    assert not call.even


def test_rows_of_one_length_are_even() -> None:
    (call,), _ = plan(batch((0, 5, 2), (1, 5, 2)), columns=64, spare=32, device=CPU)
    assert call.even and call.real is None and call.wanted is None


def test_the_order_puts_logits_back_where_they_were_wanted() -> None:
    calls, order = plan(batch((0, 9, 2), (1, 0, 50), (2, 7, 2)), columns=64, spare=32, device=CPU)
    together = torch.cat([call.ids.flatten() for call in calls if call.wanted is None] or [torch.empty(0)])
    picked = [c.ids.flatten() if c.wanted is None else c.ids.flatten()[c.wanted] for c in calls]
    assert order is not None and len(together) > 0
    assert torch.cat(picked)[order].tolist() == list(range(100, 154))
