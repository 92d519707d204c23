"""The plan of pages, with integers alone."""

import pytest

from inference.engine.pages import Pages
from inference.engine.sequence import Sequence, Task
from inference.model.batch import Clear

OUTLET = None  # pages never send anything
SIZE = 4


def pages(**changes: object) -> Pages:
    """32 pages of 4 tokens."""
    return Pages(**{"max_rows": 4, "context": 64, "area": 128, "step": SIZE, "keeps": True} | changes)


def sequence(ids: range | list[int], max_tokens: int = 100, **options: object) -> Sequence:
    return Sequence(0, Task(tuple(ids), max_tokens, **options), OUTLET, list(ids))


def seated(plan: Pages, ids: range | list[int], **options: object) -> Sequence:
    """A sequence in its pages, its prompt computed and one token chosen."""
    one = sequence(ids, **options)
    assert plan.seat(one)
    one.cached = len(one.tokens)
    one.tokens.append(99)
    plan.widen()
    return one


def test_a_sequence_has_the_pages_its_tokens_take_and_one_more() -> None:
    plan = pages()
    one = seated(plan, range(10))
    assert (one.row, one.pages) == (0, [0, 1, 2, 3])
    assert plan.spare(one) == 16 - 11
    plan.check()


def test_pages_follow_each_other_where_they_can() -> None:
    plan = pages()
    one, other = seated(plan, range(6)), seated(plan, range(50, 56))
    one.tokens += range(20)
    plan.widen()
    assert one.pages[:3] == [0, 1, 2] and other.pages == [3, 4, 5]
    assert len(one.pages) == 8 and not {*one.pages} & {*other.pages}
    plan.check()


def test_full_pages_are_shared_with_who_begins_alike() -> None:
    plan = pages()
    one = seated(plan, range(10))
    other = sequence([*range(9), 77])
    assert plan.seat(other)
    assert other.pages[:2] == one.pages[:2] and other.pages[2] not in one.pages
    assert other.cached == 2 * SIZE
    assert plan.uses[one.pages[0]] == 2
    plan.check()


def test_a_sequence_keeps_a_token_to_compute() -> None:
    plan = pages()
    seated(plan, range(8))
    again = sequence(range(8))
    assert plan.seat(again) and again.cached == SIZE


def test_what_a_sequence_leaves_is_found_again_whole_pages_of_it() -> None:
    plan = pages()
    one = seated(plan, range(10))
    held = list(one.pages)
    plan.release(one)
    assert (one.row, one.pages, one.cached) == (-1, [], 0)
    assert list(plan.kept) == [held[1], held[0]], "the first page is of use for longest"
    plan.check()
    again = sequence(range(10))
    assert plan.seat(again) and again.cached == 2 * SIZE and not plan.kept


def test_the_page_of_no_use_for_longest_is_taken_when_none_is_free() -> None:
    plan = pages(area=24, context=24)
    plan.release(seated(plan, range(8), max_tokens=4))
    plan.release(seated(plan, range(50, 58), max_tokens=4))
    newcomer = sequence([7] * 15, max_tokens=1)
    assert plan.seat(newcomer)
    left = sequence(range(50, 60), max_tokens=0)
    assert [page in plan.kept for page in plan._found(left)] == [True, True]
    assert not plan._found(sequence(range(10), max_tokens=0))
    plan.check()


def test_what_is_not_trusted_is_blank_and_is_not_found() -> None:
    plan = pages()
    one = seated(plan, range(10))
    held = list(one.pages)
    plan.release(one, trusted=False)
    assert plan.take_moves() == [Clear(page) for page in reversed(held)]
    assert not plan.named and not plan.kept and len(plan.free) == 32


def test_a_page_that_another_reads_is_not_made_blank() -> None:
    plan = pages()
    one = seated(plan, range(10))
    other = sequence(range(10))
    plan.seat(other)
    plan.release(one, trusted=False)
    assert not {move.row for move in plan.take_moves()} & set(other.pages)
    plan.check()


def test_there_is_no_seat_beyond_the_rows_or_the_pages() -> None:
    plan = pages(max_rows=1)
    seated(plan, range(4))
    assert not plan.seat(sequence(range(50, 54)))
    narrow = pages(area=16, context=16)
    seated(narrow, range(11))
    assert not narrow.seat(sequence(range(50, 54)))


def test_every_row_is_taken_where_there_are_pages_for_all_of_them() -> None:
    """Those that are near their end come to need no more than they have."""
    plan = pages(max_rows=3, context=13, area=3 * 16)
    for first in (0, 100, 200):
        seated(plan, range(first, first + 11), max_tokens=2)
    assert len(plan.live) == 3
    plan.check()


def test_a_memory_too_small_for_all_says_so() -> None:
    plan = pages(area=24, context=24)
    one, other = (seated(plan, [first] * 3, max_tokens=40) for first in (1, 2))
    one.tokens += [5] * 10
    other.tokens += [5] * 10
    assert not plan.widen()
    plan.release(other)
    assert plan.widen()
    plan.check()


@pytest.mark.parametrize("keeps", (True, False))
def test_nothing_is_shared_where_nothing_is_kept(keeps: bool) -> None:
    plan = pages(keeps=keeps)
    plan.release(seated(plan, range(10)))
    again = sequence(range(10))
    plan.seat(again)
    assert (again.cached > 0) is keeps


def test_who_asks_for_a_prompts_scores_computes_all_of_it() -> None:
    plan = pages()
    seated(plan, range(10))
    scored = sequence(range(10), prompt_logprobs=0)
    assert plan.seat(scored) and scored.cached == 0


def test_a_prefix_that_is_being_computed_is_waited_for() -> None:
    plan = pages(context=128, area=512)
    computing = sequence(range(60))
    plan.seat(computing)
    assert plan.awaits(sequence(range(60)))
    assert not plan.awaits(sequence(range(100, 160)))
    computing.cached = 59
    assert not plan.awaits(sequence(range(60)))


def test_nothing_is_left_when_all_is_forgotten() -> None:
    plan = pages()
    one = seated(plan, range(10))
    plan.forget([Clear(3)])
    assert (one.row, one.pages, one.filed) == (-1, [], 0)
    assert plan.take_moves() == [Clear(3)]
    plan.check()


def test_it_is_known_which_pages_were_ever_written() -> None:
    plan = pages()
    for ids in (range(10), range(50, 60)):
        plan.release(seated(plan, ids))
    assert plan.touched == (2 + 4) * SIZE, "two full pages of the first are kept, and four are taken"
    plan.forget()
    assert plan.touched == (2 + 4) * SIZE
