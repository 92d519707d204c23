"""Accounting of the contiguous KV cache manager, with integers alone: no tensors."""

import pytest

from inference.engine.kv.contiguous import ContiguousKVCacheManager
from inference.engine.kv.prefix import MIN_GAIN
from inference.engine.sequence import Sequence
from inference.model.batch import Clear, Copy, Resize, Swap
from tests.engine.generation_requests import make_request

NO_SINK = None  # these sequences send no output


def make_manager(**changes: object) -> ContiguousKVCacheManager:
    return ContiguousKVCacheManager(
        **{"max_sequences": 4, "context": 256, "kv_capacity": 1024, "page_size": 16, "prefix_caching": True}
        | changes
    )


def make_sequence(ids: range | list[int], max_tokens: int = 100, **options: object) -> Sequence:
    return Sequence(0, make_request(tuple(ids), max_tokens, **options), NO_SINK, list(ids))


def add_computed_sequence(
    manager: ContiguousKVCacheManager, ids: range | list[int], **options: object
) -> Sequence:
    """A sequence that has a row; its prompt is computed."""
    sequence = make_sequence(ids, **options)
    assert manager.allocate(sequence)
    sequence.num_computed_tokens = len(sequence.token_ids)
    return sequence


def take_cache_ops(manager: ContiguousKVCacheManager) -> list:
    return [cache_op for cache_op in manager.take_ops() if not isinstance(cache_op, Resize)]


def test_the_first_allocation_sizes_the_memory() -> None:
    manager = make_manager()
    add_computed_sequence(manager, range(20))
    assert manager.take_ops() == [Resize(4, 256)]


def test_a_new_sequence_takes_the_row_after_the_active_ones() -> None:
    manager = make_manager()
    assert [add_computed_sequence(manager, [n] * 20).row for n in range(4)] == [0, 1, 2, 3]
    assert not manager.allocate(make_sequence(range(20)))


def test_the_last_active_row_moves_into_the_gap_and_the_freed_tokens_survive_above() -> None:
    manager = make_manager()
    first, _, third = (add_computed_sequence(manager, [n] * (20 + n)) for n in range(3))
    take_cache_ops(manager)
    manager.free(first)
    assert take_cache_ops(manager) == [Swap(0, 2, 22)]
    assert third.row == 0 and manager.active[0] is third
    assert manager.evictable[2].token_ids == [0] * 20
    manager.check_integrity()


def test_freeing_the_last_row_moves_nothing() -> None:
    manager = make_manager()
    add_computed_sequence(manager, range(20))
    last = add_computed_sequence(manager, range(50, 70))
    take_cache_ops(manager)
    manager.free(last)
    assert take_cache_ops(manager) == []


def test_a_cached_prefix_is_found_again() -> None:
    manager = make_manager()
    manager.free(add_computed_sequence(manager, range(40)))
    again = make_sequence(range(60))
    manager.allocate(again)
    assert again.num_computed_tokens == 40 and take_cache_ops(manager) == []


def test_a_token_is_left_to_compute_when_all_are_cached() -> None:
    manager = make_manager()
    manager.free(add_computed_sequence(manager, range(40)))
    again = make_sequence(range(40))
    manager.allocate(again)
    assert again.num_computed_tokens == 39


def test_a_prefix_below_the_minimum_length_is_not_reused() -> None:
    manager = make_manager()
    manager.free(add_computed_sequence(manager, range(40)))
    other = make_sequence([*range(15), *range(100, 140)])
    manager.allocate(other)
    assert other.num_computed_tokens == 0


def test_an_evictable_row_that_is_mostly_shared_is_swapped() -> None:
    manager = make_manager()
    ending = [add_computed_sequence(manager, [n] * 30) for n in range(3)]
    for sequence in reversed(ending):
        manager.free(sequence)
    take_cache_ops(manager)
    again = make_sequence([2] * 35)
    manager.allocate(again)
    assert take_cache_ops(manager) == [Swap(0, 2, 30)]
    assert manager.evictable[2].token_ids == [0] * 30 and again.num_computed_tokens == 30


def test_an_evictable_row_that_shares_little_is_copied_and_keeps_its_content() -> None:
    manager = make_manager()
    add_computed_sequence(manager, [9] * 30)
    manager.free(add_computed_sequence(manager, range(200)))
    other = make_sequence([*range(20), *[7] * 50])
    manager.allocate(other)
    assert take_cache_ops(manager) == [Copy(1, 2, 200)]
    assert manager.evictable[2].token_ids == list(range(200)) and other.num_computed_tokens == 20


def test_an_active_prefix_is_copied_only_as_far_as_it_is_computed() -> None:
    manager = make_manager()
    live = add_computed_sequence(manager, range(60))
    live.num_computed_tokens = 50
    take_cache_ops(manager)
    other = make_sequence(range(60))
    manager.allocate(other)
    assert take_cache_ops(manager) == [Copy(0, 1, 50)] and other.num_computed_tokens == 50


def test_prefixes_are_shared_only_under_the_same_cache_salt() -> None:
    manager = make_manager(max_sequences=8)
    add_computed_sequence(manager, range(60), cache_salt="one")
    manager.free(add_computed_sequence(manager, range(60), cache_salt="two"))
    reused = []
    for salt in ("one", "two", "", "three"):
        sequence = make_sequence(range(60), cache_salt=salt)
        manager.allocate(sequence)
        reused.append(sequence.num_computed_tokens)
    assert reused == [59, 59, 0, 0]
    manager.check_integrity()


def test_the_least_recently_used_row_is_evicted() -> None:
    manager = make_manager(max_sequences=3)
    first, second, third = (add_computed_sequence(manager, [n] * 30) for n in range(3))
    for sequence in (third, second, first):
        manager.free(sequence)
    take_cache_ops(manager)
    add_computed_sequence(manager, [8] * 30)
    assert take_cache_ops(manager) == [Copy(0, 2, 30)]
    assert [row.token_ids[0] for _, row in sorted(manager.evictable.items())] == [1, 0]


def test_a_least_recently_used_row_is_overwritten_in_place() -> None:
    manager = make_manager(max_sequences=2)
    first, second = (add_computed_sequence(manager, [n] * 30) for n in range(2))
    manager.free(first)
    manager.free(second)
    manager.evictable[1].last_used, manager.evictable[0].last_used = 2, 1
    take_cache_ops(manager)
    add_computed_sequence(manager, [8] * 30)
    assert take_cache_ops(manager) == [] and set(manager.evictable) == {1}


def test_a_prefix_is_copied_before_its_row_could_be_overwritten() -> None:
    manager = make_manager(max_sequences=2)
    first, second = add_computed_sequence(manager, [5] * 30), add_computed_sequence(manager, range(100))
    manager.free(second)
    manager.free(first)
    take_cache_ops(manager)
    other = make_sequence([*range(20), *[7] * 50])
    manager.allocate(other)
    assert take_cache_ops(manager) == [Copy(1, 0, 20)] and manager.evictable[1].token_ids == list(range(100))


def test_nothing_is_cached_or_reused_without_prefix_caching() -> None:
    manager = make_manager(prefix_caching=False)
    add_computed_sequence(manager, range(40))
    manager.free(add_computed_sequence(manager, range(40)))
    other = make_sequence(range(40))
    manager.allocate(other)
    assert other.num_computed_tokens == 0 and not manager.evictable and take_cache_ops(manager) == []


def test_a_prompt_whose_tokens_are_scored_is_computed_whole() -> None:
    manager = make_manager()
    manager.free(add_computed_sequence(manager, range(40)))
    scored = make_sequence(range(40), prompt_logprobs=0)
    manager.allocate(scored)
    assert scored.num_computed_tokens == 0


def test_a_row_freed_as_not_reusable_is_not_reused() -> None:
    manager = make_manager()
    manager.free(add_computed_sequence(manager, range(40)), reusable=False)
    assert not manager.evictable


def test_columns_grow_with_a_sequence_at_the_expense_of_rows() -> None:
    manager = make_manager(kv_capacity=512)
    sequence = add_computed_sequence(manager, range(100))
    assert (manager.num_rows, manager.num_columns) == (2, 240)
    sequence.token_ids += range(150)
    assert manager.grow()
    assert (manager.num_rows, manager.num_columns) == (2, 256)


def test_columns_shrink_when_rows_are_short_and_no_active_row_needs_them() -> None:
    manager = make_manager(kv_capacity=512)
    manager.free(add_computed_sequence(manager, range(200)))
    assert manager.num_rows == 2
    for n in range(4):
        add_computed_sequence(manager, [n] * 50)
    assert (manager.num_rows, manager.num_columns) == (4, 128)
    manager.check_integrity()


def test_evictable_rows_beyond_the_shape_are_dropped_and_longer_ones_truncated() -> None:
    manager = make_manager(kv_capacity=512)
    manager.free(add_computed_sequence(manager, range(200)))
    for n in range(3):
        add_computed_sequence(manager, [n] * 60)
    assert all(len(row.token_ids) <= manager.num_columns for row in manager.evictable.values())
    manager.check_integrity()


def test_a_sequence_that_exceeds_the_free_memory_is_not_allocated() -> None:
    manager = make_manager(kv_capacity=256)
    add_computed_sequence(manager, range(200))
    assert not manager.allocate(make_sequence(range(50, 100)))
    assert len(manager.active) == 1


def test_a_row_needs_no_more_columns_than_its_prompt_and_max_tokens() -> None:
    manager = make_manager(kv_capacity=64, page_size=16)
    add_computed_sequence(manager, range(30), max_tokens=2)
    assert manager.allocate(make_sequence(range(30), max_tokens=2))


@pytest.mark.parametrize("context", (90, 100, 256))
def test_a_context_that_is_not_a_multiple_of_the_page_size_fits_whole(context: int) -> None:
    manager = make_manager(context=context, kv_capacity=context)
    add_computed_sequence(manager, range(context))
    assert manager.num_columns == context
    manager.check_integrity()


def test_a_sequence_waits_for_a_prefix_that_another_is_computing() -> None:
    manager = make_manager()
    live = add_computed_sequence(manager, range(200))
    live.num_computed_tokens = 10
    other = make_sequence(range(180))
    assert manager.should_wait_for_prefix(other)
    live.num_computed_tokens = 180 - MIN_GAIN
    assert not manager.should_wait_for_prefix(other)


def test_a_sequence_does_not_wait_for_a_cached_prefix() -> None:
    manager = make_manager()
    live = add_computed_sequence(manager, [*range(150), *[3] * 50])
    manager.free(add_computed_sequence(manager, range(200)))
    live.num_computed_tokens = 0
    assert not manager.should_wait_for_prefix(make_sequence(range(200)))


def test_nothing_is_reused_after_a_reset() -> None:
    manager = make_manager()
    sequence = add_computed_sequence(manager, range(40))
    manager.reset()
    assert (sequence.row, sequence.num_computed_tokens) == (-1, 0)
    assert (manager.num_rows, manager.num_columns, manager.cache_ops) == (0, 0, [])
    manager.allocate(sequence)
    assert sequence.num_computed_tokens == 0 and manager.take_ops() == [Resize(4, 256)]


def test_a_lost_clear_is_repeated_after_a_reset() -> None:
    manager = make_manager(max_sequences=2, kv_capacity=512)
    manager.free(add_computed_sequence(manager, range(20)), reusable=False)
    manager.reset(manager.take_ops())
    add_computed_sequence(manager, range(20))
    assert manager.take_ops() == [Resize(2, 256), Clear(0), Clear(1)]
    manager.reset()
    add_computed_sequence(manager, range(20))
    assert manager.take_ops() == [Resize(2, 256)]


def test_touched_tokens_count_columns_ever_written() -> None:
    manager = make_manager()
    first, second = add_computed_sequence(manager, range(20)), add_computed_sequence(manager, range(100, 130))
    manager.take_ops()
    assert manager.touched_tokens == 50
    manager.free(first)
    manager.take_ops()
    assert manager.touched_tokens == 30 + 30, "the rows are swapped"
    manager.free(second)
    add_computed_sequence(manager, range(200, 210))
    manager.take_ops()
    assert manager.touched_tokens == 60 + 30, "the evictable content is copied to a third row"


def test_columns_copied_by_a_resize_count_as_written() -> None:
    manager = make_manager(kv_capacity=128)
    add_computed_sequence(manager, range(20))
    assert manager.take_ops() == [Resize(1, 80)] and manager.touched_tokens == 20
    add_computed_sequence(manager, range(100, 120))
    assert manager.take_ops() == [Resize(2, 64)] and manager.touched_tokens == 64 + 20


def test_touched_tokens_count_the_longer_of_encoder_and_decoder() -> None:
    manager = make_manager(prefix_caching=False)
    assert manager.allocate(Sequence(0, make_request((), 10), NO_SINK, [1, 2], encoder_ids=tuple(range(30))))
    manager.take_ops()
    assert manager.touched_tokens == 30
