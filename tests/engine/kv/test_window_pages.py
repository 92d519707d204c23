"""Accounting of the pages of layers with a sliding window, with integers alone: no tensors."""

import pytest

from inference.engine.kv.paged import PagedKVCacheManager
from inference.engine.scheduling.scheduler import Scheduler
from inference.engine.sequence import Sequence
from inference.model.batch import Clear
from inference.model.kv_cost import WindowGroup
from tests.engine.generation_requests import make_request

SIZE = 4
WINDOW = 10  # its tokens are in 4 pages at most
ROW_PAGES = 5
NULL = WindowGroup(WINDOW, 20).null_page


def make_manager(*window_groups: WindowGroup, **changes: object) -> PagedKVCacheManager:
    """64 pages of 4 tokens, and 20 in the layers with a window."""
    return PagedKVCacheManager(
        **{"max_sequences": 4, "context": 128, "kv_capacity": 256, "page_size": SIZE, "prefix_caching": True}
        | {"window_groups": window_groups or (WindowGroup(WINDOW, 20),)}
        | changes
    )


def make_sequence(ids: range | list[int], max_tokens: int = 100, **options: object) -> Sequence:
    return Sequence(0, make_request(tuple(ids), max_tokens, **options), None, list(ids))


def compute(manager: PagedKVCacheManager, sequence: Sequence, num_tokens: int) -> int:
    """Compute the next tokens in one step, as many as have pages; returns their number."""
    num_computed = manager.reserve(sequence, min(num_tokens, sequence.num_uncomputed_tokens))
    sequence.num_computed_tokens += num_computed
    if sequence.num_uncomputed_tokens == 0:
        sequence.token_ids.append(99)
    assert manager.grow()
    manager.check_integrity()
    return num_computed


def add_sequence(manager: PagedKVCacheManager, ids: range | list[int], **options: object) -> Sequence:
    """A sequence that has pages; its prompt is computed in one step."""
    sequence = make_sequence(ids, **options)
    assert manager.allocate(sequence)
    assert compute(manager, sequence, len(ids)) > 0
    return sequence


def live_pages(sequence: Sequence, index: int = 0) -> list[int]:
    """Indices of the pages that are not the null page."""
    pages = sequence.window_pages[index]
    return [i for i, page in enumerate(pages) if page != NULL]


def test_a_sequence_lists_the_pages_that_its_window_reaches() -> None:
    manager = make_manager()
    sequence = add_sequence(manager, range(40))
    # The token at 40 attends to those from 31 on, in page 7; there is one spare page.
    assert live_pages(sequence) == [7, 8, 9, 10, 11]
    assert sequence.window_pages[0][:7] == [NULL] * 7
    assert len(sequence.pages) == 12 and NULL not in sequence.pages


def test_a_page_is_free_as_soon_as_no_token_can_attend_to_it() -> None:
    manager = make_manager()
    sequence = add_sequence(manager, range(12))
    lowest = []
    for _ in range(9):
        lowest.append((sequence.num_computed_tokens, live_pages(sequence)[0]))
        compute(manager, sequence, 1)
    assert lowest == [(n, max(0, n - WINDOW + 1) // SIZE) for n in range(12, 21)]
    assert lowest[0][1] == 0 and lowest[-1][1] == 2


def test_a_window_of_one_token_keeps_no_earlier_page() -> None:
    manager = make_manager(WindowGroup(1, 20))
    sequence = add_sequence(manager, range(16))
    assert live_pages(sequence) == [4, 5]
    again = make_sequence([*range(16), 5])
    manager.free(sequence)
    assert manager.allocate(again) and again.num_computed_tokens == 16


def test_a_short_sequence_keeps_all_pages() -> None:
    manager = make_manager()
    assert live_pages(add_sequence(manager, range(9))) == [0, 1, 2, 3]


def test_tokens_in_flight_keep_the_window_of_the_tokens_whose_results_are_known() -> None:
    manager = make_manager()
    sequence = add_sequence(manager, range(40))
    assert sequence.num_computed_tokens == 40
    sequence.token_ids += range(8)
    sequence.num_in_flight_tokens = 8  # they might have to be computed again
    assert manager.grow() and live_pages(sequence)[0] == 7
    sequence.num_computed_tokens, sequence.num_in_flight_tokens = 48, 0
    assert manager.grow() and live_pages(sequence)[0] == 9


def test_a_prompt_is_computed_in_as_many_steps_as_its_pages_need() -> None:
    manager = make_manager(WindowGroup(WINDOW, 8))
    sequence = make_sequence(range(100))
    assert manager.allocate(sequence)
    steps = []
    while sequence.num_computed_tokens < 100:
        steps.append(compute(manager, sequence, 100))
    assert sum(steps) == 100 and steps[0] == 8 * SIZE and min(steps) > 1


def test_a_prompt_leaves_the_pages_that_others_need_to_decode() -> None:
    manager = make_manager(WindowGroup(WINDOW, 2 * ROW_PAGES + 1))
    first, second = make_sequence(range(4)), make_sequence(range(50, 110))
    assert manager.allocate(first) and manager.allocate(second)
    assert manager.reserve(second, 60) == (ROW_PAGES + 1) * SIZE
    for _ in range(30):  # the first sequence decodes, as if the step of the second took long
        first.num_computed_tokens += first.num_uncomputed_tokens
        first.token_ids.append(7)
        assert manager.grow()


def test_reserve_returns_all_tokens_where_pages_suffice_and_never_fewer_than_one() -> None:
    manager = make_manager(WindowGroup(WINDOW, ROW_PAGES))
    sequence = make_sequence(range(60))
    assert manager.allocate(sequence)
    assert manager.reserve(sequence, 3) == 3
    assert manager.reserve(sequence, 60) == ROW_PAGES * SIZE
    sequence.num_in_flight_tokens = ROW_PAGES * SIZE - 1
    assert manager.reserve(sequence, 60) == 1


def test_a_sequence_is_admitted_only_if_all_can_decode() -> None:
    manager = make_manager(WindowGroup(WINDOW, 2 * ROW_PAGES + 3))
    sequences = [make_sequence(range(start, start + 30)) for start in (0, 100, 200)]
    assert [manager.allocate(each) for each in sequences] == [True, True, False]
    assert not sequences[2].window_pages and sequences[2].row == -1
    manager.free(sequences[0])
    assert manager.allocate(sequences[2])
    manager.check_integrity()


def test_a_short_sequence_claims_no_more_pages_than_it_can_have() -> None:
    manager = make_manager(WindowGroup(WINDOW, ROW_PAGES + 1))
    assert manager.allocate(make_sequence(range(40)))
    assert not manager.allocate(make_sequence(range(3), max_tokens=2))
    assert manager.allocate(make_sequence(range(2), max_tokens=1))


def test_memory_is_too_small_if_a_next_token_has_no_page() -> None:
    """Two sequences with a common prefix decode: what they share is not enough once they have left it."""
    manager = make_manager(WindowGroup(WINDOW, ROW_PAGES + 2))
    first, second = add_sequence(manager, range(40)), make_sequence([*range(40), 77])
    assert manager.allocate(second)
    is_enough = []
    for _ in range(16):
        is_enough.append(manager.grow())
        for sequence in (first, second):
            sequence.num_computed_tokens += 1
            sequence.token_ids.append(7)
    assert is_enough[:13] == [True] * 12 + [False]
    manager.free(second)
    assert manager.grow()


def test_a_prefix_is_reused_if_its_last_window_is_cached() -> None:
    manager = make_manager()
    sequence = add_sequence(manager, range(40))
    listed = list(sequence.window_pages[0])
    manager.free(sequence)
    again = make_sequence([*range(40), 77])
    assert manager.allocate(again) and again.num_computed_tokens == 40
    assert again.window_pages[0][:10] == [NULL] * 7 + listed[7:10], "pages that were listed last"
    manager.check_integrity()


def test_pages_behind_the_window_stay_cached() -> None:
    manager = make_manager()
    add_sequence(manager, range(40))
    early = make_sequence([*range(20), 77])
    assert manager.allocate(early) and early.num_computed_tokens == 20
    assert live_pages(early)[0] == (20 - WINDOW + 1) // SIZE


def test_a_prefix_ends_where_a_whole_window_is_cached() -> None:
    """Pages that other tokens took are missing: the prefix must end at the last page behind which none is."""
    manager = make_manager()
    manager.free(add_sequence(manager, range(40)))
    window = manager.windows[0]
    hashes = make_sequence(range(40)).page_hashes
    probe = make_sequence([*range(40), 77])
    manager._extend_hashes(probe)
    hashes = probe.page_hashes
    assert window.longest_prefix(hashes, 10) == 10
    lost = window.pool.page_of_hash.pop(hashes[8])
    assert window.longest_prefix(hashes, 10) == 8
    assert window.longest_prefix(hashes, 7) == 7
    window.pool.page_of_hash.pop(hashes[5])
    assert window.longest_prefix(hashes, 10) == 5, "the window of 8 pages begins in page 5"
    window.pool.page_of_hash[hashes[8]] = lost
    assert window.longest_prefix(hashes, 10) == 10, "page 5 is behind the window"
    assert window.longest_prefix(hashes, 8) == 5


def test_each_of_several_windows_shortens_the_prefix() -> None:
    manager = make_manager(WindowGroup(WINDOW, 20), WindowGroup(6, 20))
    manager.free(add_sequence(manager, range(40)))
    probe = make_sequence([*range(40), 77])
    manager._extend_hashes(probe)
    narrow, wide = manager.windows[1], manager.windows[0]
    narrow.pool.page_of_hash.pop(probe.page_hashes[8])  # leaves 8 pages, whose wide window misses page 5
    wide.pool.page_of_hash.pop(probe.page_hashes[5])
    wide.pool.page_of_hash.pop(probe.page_hashes[3])
    assert len(manager._cached_prefix(probe)) == 3


def test_a_prefix_without_its_last_window_is_not_reused() -> None:
    manager = make_manager(WindowGroup(WINDOW, 12))
    manager.free(add_sequence(manager, range(40)))
    manager.free(add_sequence(manager, range(100, 160)))  # takes all pages of the window group
    again = make_sequence([*range(40), 77])
    manager._extend_hashes(again)
    assert all(page_hash in manager.pool.page_of_hash for page_hash in again.page_hashes)
    assert manager.allocate(again) and again.num_computed_tokens == 0


def test_without_prefix_caching_pages_behind_the_window_are_free() -> None:
    manager = make_manager(prefix_caching=False)
    sequence = add_sequence(manager, range(40))
    assert len(manager.windows[0].pool.free_pages) == 20 - len(live_pages(sequence))


def test_sequences_share_the_pages_of_a_common_window() -> None:
    manager = make_manager()
    first = add_sequence(manager, range(40))
    second = make_sequence([*range(40), 77])
    assert manager.allocate(second)
    shared = second.window_pages[0][7:10]
    assert shared == first.window_pages[0][7:10]
    assert all(manager.windows[0].pool.ref_count[page] == 2 for page in shared)
    manager.free(first)
    assert all(manager.windows[0].pool.ref_count[page] == 1 for page in shared)
    manager.check_integrity()


def test_a_sequence_that_is_not_reusable_is_cleared_in_its_window_groups() -> None:
    manager = make_manager()
    sequence = add_sequence(manager, range(40))
    live = [page for page in sequence.window_pages[0] if page != NULL]
    manager.free(sequence, reusable=False)
    ops = manager.take_ops()
    assert {op.row for op in ops if op == Clear(op.row, 1)} == set(live)
    assert not {*live} & {*manager.windows[0].pool.hash_of_page}
    manager.check_integrity()


def test_pages_in_flight_are_cleared_in_their_group() -> None:
    manager = make_manager()
    sequence = add_sequence(manager, range(40))
    sequence.num_in_flight_tokens = 1
    full, windowed = sequence.pages[10], sequence.window_pages[0][10]
    manager.free(sequence)
    assert manager.take_ops() == [Clear(full), Clear(windowed, 1)]


def test_reset_clears_pages_in_flight_and_frees_the_others() -> None:
    manager = make_manager()
    sequence = add_sequence(manager, range(40))
    sequence.num_in_flight_tokens = 1
    full, windowed = sequence.pages[10], sequence.window_pages[0][10]
    manager.reset()
    assert manager.take_ops() == [Clear(full), Clear(windowed, 1)]
    assert len(manager.windows[0].pool.free_pages) == 20 and not sequence.window_pages
    manager.check_integrity()


def test_drafts_need_pages_in_every_group() -> None:
    manager = make_manager(WindowGroup(WINDOW, ROW_PAGES))
    sequence = add_sequence(manager, range(19))
    assert (len(sequence.pages), len(sequence.window_pages[0])) == (6, 6)
    assert manager.num_free_tokens(sequence) == 24 - 20
    sequence.window_pages[0].pop()
    assert manager.num_free_tokens(sequence) == 20 - 20


def test_a_group_must_hold_one_row() -> None:
    make_manager(WindowGroup(WINDOW, ROW_PAGES))
    make_manager(WindowGroup(WINDOW, 2), context=8)
    with pytest.raises(AssertionError, match="one row"):
        make_manager(WindowGroup(WINDOW, ROW_PAGES - 1))


def test_used_tokens_are_those_of_the_group_that_is_fuller() -> None:
    manager = make_manager(WindowGroup(WINDOW, 8))
    sequence = add_sequence(manager, range(9))
    assert manager.used_tokens == 4 * 256 // 8, "4 of 8 pages, while 4 of 64 hold all tokens"
    manager.free(sequence)
    assert manager.used_tokens == 0


def test_the_scheduler_computes_no_more_of_a_prompt_than_has_pages() -> None:
    manager = make_manager(WindowGroup(WINDOW, ROW_PAGES + 3))
    scheduler = Scheduler(manager, max_batch_tokens=64, whole_prompts=False)
    scheduler.waiting.append(make_sequence(range(100), max_tokens=2))
    chunks = []
    while scheduler.waiting or scheduler.running:
        [(sequence, num_tokens)] = scheduler.schedule()
        assert sequence.num_computed_tokens + num_tokens <= len(sequence.window_pages[0]) * SIZE
        chunks.append(num_tokens)
        sequence.num_computed_tokens += num_tokens
        if sequence.num_uncomputed_tokens == 0:
            sequence.token_ids.append(7)
        manager.check_integrity()
        if len(sequence.token_ids) == 102:
            scheduler.finish(sequence)
    assert chunks[0] == (ROW_PAGES + 3) * SIZE and sum(chunks) == 101


def test_two_prompts_share_the_pages_of_a_step() -> None:
    manager = make_manager(WindowGroup(WINDOW, 2 * ROW_PAGES + 1))
    scheduler = Scheduler(manager, max_batch_tokens=128, whole_prompts=False)
    sequences = [make_sequence(range(start, start + 60), max_tokens=2) for start in (0, 100)]
    for id, sequence in enumerate(sequences):
        sequence.id = id
    scheduler.waiting += sequences
    assert {sequence.id: num_tokens for sequence, num_tokens in scheduler.schedule()} == {
        0: (ROW_PAGES + 1) * SIZE,
        1: ROW_PAGES * SIZE,
    }
