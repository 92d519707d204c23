"""The seating plan, with integers alone."""

import pytest

from inference.engine.prefix import MIN_GAIN
from inference.engine.rows import Rows
from inference.engine.sequence import Sequence, Task
from inference.model.batch import Clear, Copy, Shape, Swap

OUTLET = None  # rows never send anything


def rows(**changes: object) -> Rows:
    return Rows(**{"max_rows": 4, "context": 256, "area": 1024, "step": 16, "keeps": True} | changes)


def sequence(ids: range | list[int], max_tokens: int = 100, **options: object) -> Sequence:
    return Sequence(0, Task(tuple(ids), max_tokens, **options), OUTLET, list(ids))


def seated(plan: Rows, ids: range | list[int], **options: object) -> Sequence:
    """A sequence in its row, its prompt computed."""
    one = sequence(ids, **options)
    assert plan.seat(one)
    one.cached = len(one.tokens)
    return one


def moves(plan: Rows) -> list:
    return [move for move in plan.take_moves() if not isinstance(move, Shape)]


def test_the_first_seat_makes_the_shape() -> None:
    plan = rows()
    seated(plan, range(20))
    assert plan.take_moves() == [Shape(4, 256)]


def test_a_new_sequence_takes_the_row_after_the_live_ones() -> None:
    plan = rows()
    assert [seated(plan, [n] * 20).row for n in range(4)] == [0, 1, 2, 3]
    assert not plan.seat(sequence(range(20)))


def test_the_last_live_row_moves_into_the_gap_and_what_was_freed_survives_behind() -> None:
    plan = rows()
    first, _, third = (seated(plan, [n] * (20 + n)) for n in range(3))
    moves(plan)
    plan.release(first)
    assert moves(plan) == [Swap(0, 2, 22)]
    assert third.row == 0 and plan.live[0] is third
    assert plan.kept[2].tokens == [0] * 20
    plan.check()


def test_freeing_the_last_row_moves_nothing() -> None:
    plan = rows()
    seated(plan, range(20))
    last = seated(plan, range(50, 70))
    moves(plan)
    plan.release(last)
    assert moves(plan) == []


def test_a_kept_prefix_is_found_again() -> None:
    plan = rows()
    plan.release(seated(plan, range(40)))
    again = sequence(range(60))
    plan.seat(again)
    assert again.cached == 40 and moves(plan) == []


def test_a_token_is_left_to_compute_when_all_is_known() -> None:
    plan = rows()
    plan.release(seated(plan, range(40)))
    again = sequence(range(40))
    plan.seat(again)
    assert again.cached == 39


def test_a_prefix_shorter_than_the_least_is_not_reused() -> None:
    plan = rows()
    plan.release(seated(plan, range(40)))
    other = sequence([*range(15), *range(100, 140)])
    plan.seat(other)
    assert other.cached == 0


def test_a_kept_row_of_which_most_is_shared_trades_places() -> None:
    plan = rows()
    ending = [seated(plan, [n] * 30) for n in range(3)]
    for one in reversed(ending):
        plan.release(one)
    moves(plan)
    again = sequence([2] * 35)
    plan.seat(again)
    assert moves(plan) == [Swap(0, 2, 30)]
    assert plan.kept[2].tokens == [0] * 30 and again.cached == 30


def test_a_kept_row_of_which_little_is_shared_keeps_the_rest() -> None:
    plan = rows()
    seated(plan, [9] * 30)
    plan.release(seated(plan, range(200)))
    other = sequence([*range(20), *[7] * 50])
    plan.seat(other)
    assert moves(plan) == [Copy(1, 2, 200)]
    assert plan.kept[2].tokens == list(range(200)) and other.cached == 20


def test_a_live_prefix_is_copied_only_as_far_as_it_is_computed() -> None:
    plan = rows()
    live = seated(plan, range(60))
    live.cached = 50
    moves(plan)
    other = sequence(range(60))
    plan.seat(other)
    assert moves(plan) == [Copy(0, 1, 50)] and other.cached == 50


def test_the_content_lost_is_the_least_recently_used() -> None:
    plan = rows(max_rows=3)
    first, second, third = (seated(plan, [n] * 30) for n in range(3))
    for one in (third, second, first):
        plan.release(one)
    moves(plan)
    seated(plan, [8] * 30)
    assert moves(plan) == [Copy(0, 2, 30)]
    assert [kept.tokens[0] for _, kept in sorted(plan.kept.items())] == [1, 0]


def test_content_that_is_itself_the_least_recently_used_is_overwritten_where_it_is() -> None:
    plan = rows(max_rows=2)
    first, second = (seated(plan, [n] * 30) for n in range(2))
    plan.release(first)
    plan.release(second)
    plan.kept[1].used, plan.kept[0].used = 2, 1
    moves(plan)
    seated(plan, [8] * 30)
    assert moves(plan) == [] and set(plan.kept) == {1}


def test_a_prefix_is_copied_before_its_row_could_be_overwritten() -> None:
    plan = rows(max_rows=2)
    first, second = seated(plan, [5] * 30), seated(plan, range(100))
    plan.release(second)
    plan.release(first)
    moves(plan)
    other = sequence([*range(20), *[7] * 50])
    plan.seat(other)
    assert moves(plan) == [Copy(1, 0, 20)] and plan.kept[1].tokens == list(range(100))


def test_nothing_is_kept_or_reused_where_rows_do_not_keep() -> None:
    plan = rows(keeps=False)
    seated(plan, range(40))
    plan.release(seated(plan, range(40)))
    other = sequence(range(40))
    plan.seat(other)
    assert other.cached == 0 and not plan.kept and moves(plan) == []


def test_a_prompt_whose_tokens_are_scored_is_computed_whole() -> None:
    plan = rows()
    plan.release(seated(plan, range(40)))
    scored = sequence(range(40), prompt_logprobs=0)
    plan.seat(scored)
    assert scored.cached == 0


def test_what_is_not_trusted_is_not_found_again() -> None:
    plan = rows()
    plan.release(seated(plan, range(40)), trusted=False)
    assert not plan.kept


def test_columns_grow_when_a_sequence_outgrows_them_and_rows_pay_for_it() -> None:
    plan = rows(area=512)
    one = seated(plan, range(100))
    assert (plan.rows, plan.columns) == (2, 240)
    one.tokens += range(150)
    assert plan.widen()
    assert (plan.rows, plan.columns) == (2, 256)


def test_columns_shrink_when_rows_are_short_and_no_live_row_needs_them() -> None:
    plan = rows(area=512)
    plan.release(seated(plan, range(200)))
    assert plan.rows == 2
    for n in range(4):
        seated(plan, [n] * 50)
    assert (plan.rows, plan.columns) == (4, 128)
    plan.check()


def test_kept_rows_beyond_the_shape_are_dropped_and_longer_ones_cut() -> None:
    plan = rows(area=512)
    plan.release(seated(plan, range(200)))
    for n in range(3):
        seated(plan, [n] * 60)
    assert all(len(kept.tokens) <= plan.columns for kept in plan.kept.values())
    plan.check()


def test_nobody_is_seated_whom_the_area_cannot_hold() -> None:
    plan = rows(area=256)
    seated(plan, range(200))
    assert not plan.seat(sequence(range(50, 100)))
    assert len(plan.live) == 1


def test_a_row_never_needs_more_columns_than_its_answer_may_fill() -> None:
    plan = rows(area=64, step=16)
    seated(plan, range(30), max_tokens=2)
    assert plan.seat(sequence(range(30), max_tokens=2))


@pytest.mark.parametrize("context", (90, 100, 256))
def test_a_context_that_is_no_multiple_of_the_step_is_held_whole(context: int) -> None:
    plan = rows(context=context, area=context)
    seated(plan, range(context))
    assert plan.columns == context
    plan.check()


def test_a_sequence_awaits_the_prefix_another_is_computing() -> None:
    plan = rows()
    live = seated(plan, range(200))
    live.cached = 10
    other = sequence(range(180))
    assert plan.awaits(other)
    live.cached = 180 - MIN_GAIN
    assert not plan.awaits(other)


def test_a_sequence_does_not_await_what_is_kept_already() -> None:
    plan = rows()
    live = seated(plan, [*range(150), *[3] * 50])
    plan.release(seated(plan, range(200)))
    live.cached = 0
    assert not plan.awaits(sequence(range(200)))


def test_nothing_is_trusted_after_forgetting() -> None:
    plan = rows()
    one = seated(plan, range(40))
    plan.forget()
    assert (one.row, one.cached, plan.rows, plan.columns, plan.moves) == (-1, 0, 0, 0, [])
    plan.seat(one)
    assert one.cached == 0 and plan.take_moves() == [Shape(4, 256)]


def test_what_was_to_be_blank_will_be_though_the_step_that_was_to_do_it_failed() -> None:
    plan = rows(max_rows=2, area=512)
    plan.release(seated(plan, range(20)), trusted=False)
    plan.forget(plan.take_moves())
    seated(plan, range(20))
    assert plan.take_moves() == [Shape(2, 256), Clear(0), Clear(1)]
    plan.forget()
    seated(plan, range(20))
    assert plan.take_moves() == [Shape(2, 256)]


def test_it_is_known_how_far_rows_were_ever_written() -> None:
    plan = rows()
    first, second = seated(plan, range(20)), seated(plan, range(100, 130))
    plan.take_moves()
    assert plan.touched == 50
    plan.release(first)
    plan.take_moves()
    assert plan.touched == 30 + 30, "they have changed places"
    plan.release(second)
    seated(plan, range(200, 210))
    plan.take_moves()
    assert plan.touched == 60 + 30, "what was kept has gone to a third row"


def test_what_a_new_shape_copies_counts_as_written() -> None:
    plan = rows(area=128)
    seated(plan, range(20))
    assert plan.take_moves() == [Shape(1, 80)] and plan.touched == 20
    seated(plan, range(100, 120))
    assert plan.take_moves() == [Shape(2, 64)] and plan.touched == 64 + 20


def test_of_an_encoded_prompt_the_longer_side_counts() -> None:
    plan = rows(keeps=False)
    assert plan.seat(Sequence(0, Task((), 10), OUTLET, [1, 2], source=tuple(range(30))))
    plan.take_moves()
    assert plan.touched == 30
