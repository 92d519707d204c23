"""Accounting of the paged KV cache manager, with integers alone: no tensors."""

import pytest

from inference.engine.kv.paged import PagedKVCacheManager
from inference.engine.sequence import Sequence
from inference.model.batch import Clear
from tests.engine.generation_requests import make_request

NO_SINK = None  # these sequences send no output
SIZE = 4


def make_manager(**changes: object) -> PagedKVCacheManager:
    """32 pages of 4 tokens."""
    return PagedKVCacheManager(
        **{"max_sequences": 4, "context": 64, "kv_capacity": 128, "page_size": SIZE, "prefix_caching": True}
        | changes
    )


def make_sequence(ids: range | list[int], max_tokens: int = 100, **options: object) -> Sequence:
    return Sequence(0, make_request(tuple(ids), max_tokens, **options), NO_SINK, list(ids))


def add_computed_sequence(
    manager: PagedKVCacheManager, ids: range | list[int], **options: object
) -> Sequence:
    """A sequence that has pages; its prompt is computed and one token is sampled."""
    sequence = make_sequence(ids, **options)
    assert manager.allocate(sequence)
    sequence.num_computed_tokens = len(sequence.token_ids)
    sequence.token_ids.append(99)
    manager.grow()
    return sequence


def test_a_sequence_gets_pages_for_its_tokens_and_one_spare_page() -> None:
    manager = make_manager()
    sequence = add_computed_sequence(manager, range(10))
    assert (sequence.row, sequence.pages) == (0, [0, 1, 2, 3])
    assert manager.num_free_tokens(sequence) == 16 - 11
    manager.check_integrity()


def test_pages_of_a_sequence_are_consecutive_where_possible() -> None:
    manager = make_manager()
    sequence, other = add_computed_sequence(manager, range(6)), add_computed_sequence(manager, range(50, 56))
    sequence.token_ids += range(20)
    manager.grow()
    assert sequence.pages[:3] == [0, 1, 2] and other.pages == [3, 4, 5]
    assert len(sequence.pages) == 8 and not {*sequence.pages} & {*other.pages}
    manager.check_integrity()


def test_full_pages_are_shared_by_sequences_with_a_common_prefix() -> None:
    manager = make_manager()
    sequence = add_computed_sequence(manager, range(10))
    other = make_sequence([*range(9), 77])
    assert manager.allocate(other)
    assert other.pages[:2] == sequence.pages[:2] and other.pages[2] not in sequence.pages
    assert other.num_computed_tokens == 2 * SIZE
    assert manager.pool.ref_count[sequence.pages[0]] == 2
    manager.check_integrity()


def test_pages_are_shared_only_under_the_same_cache_salt() -> None:
    manager = make_manager()
    manager.free(add_computed_sequence(manager, range(20), cache_salt="one"))
    running = add_computed_sequence(manager, range(20), cache_salt="two")
    reused = []
    for salt in ("one", "two", "", "three"):
        sequence = make_sequence(range(20), cache_salt=salt)
        assert not manager.should_wait_for_prefix(sequence)
        manager.allocate(sequence)
        reused.append(sequence.num_computed_tokens)
        manager.free(sequence)
    assert reused == [16, 16, 0, 0] and running.num_computed_tokens == 20
    manager.check_integrity()


def test_used_tokens_count_a_shared_page_once() -> None:
    manager = make_manager()
    one = add_computed_sequence(manager, range(10))
    assert manager.used_tokens == 4 * SIZE
    other = make_sequence([*range(9), 77])
    assert manager.allocate(other)
    assert manager.used_tokens == (4 + 1) * SIZE, "two of its three pages are shared"
    manager.free(one)
    manager.free(other)
    assert manager.used_tokens == 0 and manager.pool.evictable


def test_at_least_one_token_is_left_to_compute() -> None:
    manager = make_manager()
    add_computed_sequence(manager, range(8))
    again = make_sequence(range(8))
    assert manager.allocate(again) and again.num_computed_tokens == SIZE


def test_the_full_pages_of_an_ended_sequence_are_reused() -> None:
    manager = make_manager()
    sequence = add_computed_sequence(manager, range(10))
    pages_before = list(sequence.pages)
    manager.free(sequence)
    assert (sequence.row, sequence.pages, sequence.num_computed_tokens) == (-1, [], 0)
    assert list(manager.pool.evictable) == [pages_before[1], pages_before[0]], (
        "the first page is evicted last"
    )
    manager.check_integrity()
    again = make_sequence(range(10))
    assert manager.allocate(again) and again.num_computed_tokens == 2 * SIZE and not manager.pool.evictable


def test_the_least_recently_used_page_is_evicted_when_none_is_free() -> None:
    manager = make_manager(kv_capacity=24, context=24)
    manager.free(add_computed_sequence(manager, range(8), max_tokens=4))
    manager.free(add_computed_sequence(manager, range(50, 58), max_tokens=4))
    newcomer = make_sequence([7] * 15, max_tokens=1)
    assert manager.allocate(newcomer)
    survivor = make_sequence(range(50, 60), max_tokens=0)
    assert [page in manager.pool.evictable for page in manager._cached_prefix(survivor)] == [True, True]
    assert not manager._cached_prefix(make_sequence(range(10), max_tokens=0))
    manager.check_integrity()


def test_pages_freed_as_not_reusable_are_cleared_and_not_reused() -> None:
    manager = make_manager()
    sequence = add_computed_sequence(manager, range(10))
    pages_before = list(sequence.pages)
    manager.free(sequence, reusable=False)
    assert manager.take_ops() == [Clear(page) for page in reversed(pages_before)]
    assert not manager.pool.page_of_hash and not manager.pool.evictable and len(manager.pool.free_pages) == 32


def test_a_page_that_another_sequence_uses_is_not_cleared() -> None:
    manager = make_manager()
    sequence = add_computed_sequence(manager, range(10))
    other = make_sequence(range(10))
    manager.allocate(other)
    manager.free(sequence, reusable=False)
    assert not {move.row for move in manager.take_ops()} & set(other.pages)
    manager.check_integrity()


def test_allocation_fails_without_a_free_row_or_enough_pages() -> None:
    manager = make_manager(max_sequences=1)
    add_computed_sequence(manager, range(4))
    assert not manager.allocate(make_sequence(range(50, 54)))
    narrow = make_manager(kv_capacity=16, context=16)
    add_computed_sequence(narrow, range(11))
    assert not narrow.allocate(make_sequence(range(50, 54)))


def test_every_row_can_be_allocated_when_there_are_pages_for_all() -> None:
    """Sequences near their end need no spare page."""
    manager = make_manager(max_sequences=3, context=13, kv_capacity=3 * 16)
    for first in (0, 100, 200):
        add_computed_sequence(manager, range(first, first + 11), max_tokens=2)
    assert len(manager.active) == 3
    manager.check_integrity()


def test_grow_fails_if_the_memory_is_too_small_for_all() -> None:
    manager = make_manager(kv_capacity=24, context=24)
    sequence, other = (add_computed_sequence(manager, [first] * 3, max_tokens=40) for first in (1, 2))
    sequence.token_ids += [5] * 10
    other.token_ids += [5] * 10
    assert not manager.grow()
    manager.free(other)
    assert manager.grow()
    manager.check_integrity()


@pytest.mark.parametrize("prefix_caching", (True, False))
def test_nothing_is_shared_without_prefix_caching(prefix_caching: bool) -> None:
    manager = make_manager(prefix_caching=prefix_caching)
    manager.free(add_computed_sequence(manager, range(10)))
    again = make_sequence(range(10))
    manager.allocate(again)
    assert (again.num_computed_tokens > 0) is prefix_caching


def test_a_prompt_whose_tokens_are_scored_is_computed_in_full() -> None:
    manager = make_manager()
    add_computed_sequence(manager, range(10))
    scored = make_sequence(range(10), prompt_logprobs=0)
    assert manager.allocate(scored) and scored.num_computed_tokens == 0


def test_a_sequence_waits_for_a_prefix_that_is_being_computed() -> None:
    manager = make_manager(context=128, kv_capacity=512)
    computing = make_sequence(range(60))
    manager.allocate(computing)
    assert manager.should_wait_for_prefix(make_sequence(range(60)))
    assert not manager.should_wait_for_prefix(make_sequence(range(100, 160)))
    computing.num_computed_tokens = 59
    assert not manager.should_wait_for_prefix(make_sequence(range(60)))


def test_a_reset_clears_all_state() -> None:
    manager = make_manager()
    sequence = add_computed_sequence(manager, range(10))
    manager.reset([Clear(3)])
    assert (sequence.row, sequence.pages, sequence.num_hashed_pages) == (-1, [], 0)
    assert manager.take_ops() == [Clear(3)]
    manager.check_integrity()


def test_touched_tokens_count_pages_ever_written() -> None:
    manager = make_manager()
    for ids in (range(10), range(50, 60)):
        manager.free(add_computed_sequence(manager, ids))
    assert manager.touched_tokens == (2 + 4) * SIZE, (
        "two full pages of the first are evictable, and four are in use"
    )
    manager.reset()
    assert manager.touched_tokens == (2 + 4) * SIZE


def test_pages_that_a_step_in_flight_writes_are_cleared_when_they_are_freed() -> None:
    """What it writes is not checked any more: it may be NaN, and the page may go to another sequence."""
    manager = make_manager()
    sequence = add_computed_sequence(manager, range(10))
    sequence.num_in_flight_tokens = 3
    first, second, third, fourth = sequence.pages
    manager.free(sequence)
    assert manager.take_ops() == [Clear(fourth), Clear(third)]
    assert list(manager.pool.evictable) == [second, first]
    assert (sequence.num_in_flight_tokens, sequence.num_pending_tokens) == (0, 0)
    manager.check_integrity()


def test_pages_in_flight_are_cleared_at_a_reset() -> None:
    manager = make_manager()
    sequence = add_computed_sequence(manager, range(10))
    sequence.num_in_flight_tokens = 1
    pages = list(sequence.pages)
    manager.reset([Clear(3)])
    assert manager.take_ops() == [Clear(3), Clear(pages[2])]


def test_tokens_in_flight_are_not_shared() -> None:
    """Their ids may be unknown, and their values are not checked for NaN."""
    manager = make_manager()
    sequence = make_sequence(range(10))
    assert manager.allocate(sequence)
    sequence.num_in_flight_tokens = 10
    manager.grow()
    assert not manager.pool.page_of_hash
    sequence.num_computed_tokens, sequence.num_in_flight_tokens = 10, 0
    manager.grow()
    assert len(manager.pool.page_of_hash) == 2


def test_a_pending_token_has_its_place() -> None:
    manager = make_manager()
    sequence = add_computed_sequence(manager, range(15))
    assert len(sequence.pages) == 5
    sequence.num_pending_tokens = 1
    manager.grow()
    assert len(sequence.pages) == 6 and manager.num_free_tokens(sequence) == 24 - 17


def test_ops_of_a_step_that_was_not_launched_are_done_first_by_the_next_step() -> None:
    manager = make_manager()
    manager.free(add_computed_sequence(manager, range(3)), reusable=False)
    first_ops = manager.take_ops()
    manager.free(add_computed_sequence(manager, range(3)), reusable=False)
    later_ops = list(manager.cache_ops)
    manager.restore_ops(first_ops)
    assert manager.take_ops() == [*first_ops, *later_ops]
