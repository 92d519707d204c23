"""Paged KV memory: each sequence lists the pages of its tokens, in order.

Sequences with a common prefix share its full pages. Pages of ended sequences stay cached until other tokens
need them. Layers with a sliding window may have pages of their own (window_pages.py). Integers only: the
manager assigns pages, a runner reads and writes them.
"""

from collections import Counter
from collections.abc import Sequence as SequenceOf
from itertools import takewhile

from inference.engine.kv.page_pool import PagePool
from inference.engine.kv.prefix import MIN_GAIN, extend_page_hashes, num_shared_pages
from inference.engine.kv.window_pages import WindowPages
from inference.engine.sequence import Sequence
from inference.model.batch import CacheOp, Clear
from inference.model.kv_cost import WindowGroup


class PagedKVCacheManager:
    """A KVCacheManager (see manager.py).

    pool       the pages of Sequence.pages
    windows    the pages of Sequence.window_pages
    cache_ops  ops that the runner has yet to carry out, in order
    """

    def __init__(
        self,
        *,
        max_sequences: int,
        context: int,
        kv_capacity: int,
        page_size: int,
        prefix_caching: bool,
        window_groups: SequenceOf[WindowGroup] = (),
    ) -> None:
        self.max_sequences = max_sequences
        self.page_size = self.slots_per_page = page_size
        self.pool = PagePool(kv_capacity // page_size)
        self.kv_capacity = self.pool.num_pages * page_size
        self.context = min(context, self.kv_capacity)
        max_pages = -(-self.context // page_size)
        self.windows = [
            WindowPages(group, index, page_size, max_pages) for index, group in enumerate(window_groups)
        ]
        self.prefix_caching = prefix_caching
        self.active: list[Sequence] = []
        self.cache_ops: list[CacheOp] = []

    def allocate(self, sequence: Sequence) -> bool:
        """Give sequence its pages, the longest cached prefix among them; False if too few pages are free.

        Requires one free page beyond the sequence's tokens, and one for each active sequence that may grow.
        """
        if len(self.active) >= self.max_sequences:
            return False
        sequence.max_pages = -(-min(sequence.max_len, self.context) // self.page_size)
        cached_pages = self._cached_prefix(sequence)
        num_cached_pages = len(cached_pages)
        num_new_pages = self._num_pages_needed(sequence, extra=1) - num_cached_pages
        num_growing = sum(len(other.pages) < other.max_pages for other in self.active)
        if num_new_pages + num_growing > self.pool.num_available_after(cached_pages):
            return False
        if not all(window.has_room(sequence, num_cached_pages, self.active) for window in self.windows):
            return False
        self.pool.share(cached_pages)
        sequence.row = min(set(range(self.max_sequences)) - {other.row for other in self.active})
        sequence.pages, sequence.num_hashed_pages = cached_pages, num_cached_pages
        sequence.num_computed_tokens = num_cached_pages * self.page_size
        self.active.append(sequence)
        self.pool.extend(sequence.pages, self._num_pages_needed(sequence))
        for window in self.windows:
            window.allocate(sequence, num_cached_pages)
        return True

    def grow(self) -> bool:
        """Give every active sequence the pages of its tokens and, if enough are free, one more each.

        Layers with a sliding window need pages of the next token only. False if there are too few pages.
        """
        growing = []
        for sequence in self.active:
            if sequence.num_computed_tokens >= (sequence.num_hashed_pages + 1) * self.page_size:
                self._register_full_pages(sequence)
            num_tokens = len(sequence.token_ids) + sequence.num_pending_tokens
            num_free_tokens = len(sequence.pages) * self.page_size - num_tokens
            if num_free_tokens < self.page_size and len(sequence.pages) < sequence.max_pages:
                growing.append(sequence)
        for extra in (0, 1):
            for sequence in growing:
                num_pages = self._num_pages_needed(sequence, extra)
                if num_pages <= len(sequence.pages):
                    continue
                if num_pages - len(sequence.pages) > self.pool.num_available:
                    return bool(extra) and self._grow_windows()
                self.pool.extend(sequence.pages, num_pages)
        return not self.windows or self._grow_windows()

    def _grow_windows(self) -> bool:
        return all(window.grow(self.active) for window in self.windows)

    def reserve(self, sequence: Sequence, num_tokens: int) -> int:
        for window in self.windows:
            num_tokens = window.reserve(sequence, num_tokens, self.active)
        return num_tokens

    def free(self, sequence: Sequence, reusable: bool = True) -> None:
        """Free the pages of sequence, last page first: a cached page is useless without those before it.

        If not reusable, pages that no other sequence lists are cleared. Pages that a step in flight writes
        are cleared too: what it writes is not checked any more, and may be NaN. The steps in flight are done
        with a page before the next step clears it: the device carries out steps in order.
        """
        if reusable:
            self._register_full_pages(sequence)
        self.active.remove(sequence)
        dirty_pages = self._pages_in_flight(sequence, sequence.pages) if reusable else sequence.pages
        self.cache_ops += self.pool.release(reversed(sequence.pages), dirty=set(dirty_pages))
        for window, pages in zip(self.windows, sequence.window_pages, strict=True):
            self.cache_ops += window.free(
                sequence, self._pages_in_flight(sequence, pages) if reusable else None
            )
        sequence.clear_placement()

    def should_wait_for_prefix(self, sequence: Sequence) -> bool:
        """Whether an active sequence is computing a prefix that `sequence` can reuse.

        The prefix must exceed the longest cached one by MIN_GAIN tokens.
        """
        if not (self.prefix_caching and sequence.may_reuse_prefix):
            return False
        self._extend_hashes(sequence)
        max_pages = self._max_cached_pages(sequence)
        computing = (other for other in self.active if other.num_uncomputed_tokens > 1)
        num_promised = max(
            (num_shared_pages(sequence.page_hashes[:max_pages], other.page_hashes) for other in computing),
            default=0,
        )
        return (num_promised - len(self._cached_prefix(sequence))) * self.page_size >= MIN_GAIN

    def num_free_tokens(self, sequence: Sequence) -> int:
        num_pages = min(map(len, (sequence.pages, *sequence.window_pages)))
        return num_pages * self.page_size - sequence.num_tokens

    def reset(self, lost_ops: SequenceOf[CacheOp] = ()) -> None:
        for sequence in self.active:
            for group, pages in enumerate((sequence.pages, *sequence.window_pages)):
                self.cache_ops += [Clear(page, group) for page in self._pages_in_flight(sequence, pages)]
            sequence.clear_placement()
        self.active.clear()
        self.restore_ops(lost_ops)
        for pool in (self.pool, *(window.pool for window in self.windows)):
            pool.reset()

    def shrink(self) -> None:
        """Does nothing: the page pool is allocated at start and keeps its size."""

    def take_ops(self) -> list[CacheOp]:
        cache_ops, self.cache_ops = self.cache_ops, []
        return cache_ops

    def restore_ops(self, lost_ops: SequenceOf[CacheOp]) -> None:
        """Take back ops of `take_ops` that may not have been carried out: the next step does them first."""
        self.cache_ops[:0] = lost_ops

    @property
    def used_tokens(self) -> int:
        pools = (self.pool, *(window.pool for window in self.windows))
        return max(
            (pool.num_pages - pool.num_available) * self.kv_capacity // pool.num_pages for pool in pools
        )

    @property
    def touched_tokens(self) -> int:
        return self.pool.num_touched * self.page_size

    def check_integrity(self) -> None:
        """Assert that every page is accounted for, and that each sequence has the pages of its tokens."""
        self.pool.check_integrity(Counter(page for sequence in self.active for page in sequence.pages))
        for window in self.windows:
            window.check_integrity(self.active)
        for sequence in self.active:
            assert len(set(sequence.pages)) == len(sequence.pages)
            num_written = sequence.num_computed_tokens + sequence.num_in_flight_tokens
            assert num_written <= len(sequence.pages) * self.page_size
            assert sequence.num_hashed_pages * self.page_size <= sequence.num_computed_tokens

    def _num_pages_needed(self, sequence: Sequence, extra: int = 0) -> int:
        """Pages of the sequence's tokens, plus up to `extra` pages within its maximum length."""
        num_pages = -(-sequence.num_tokens // self.page_size)
        return max(num_pages, min(num_pages + extra, sequence.max_pages))

    def _pages_in_flight(self, sequence: Sequence, pages: list[int]) -> list[int]:
        """The sequence's pages that steps in flight write.

        No other sequence lists them: they are not registered.
        """
        start = sequence.num_computed_tokens
        end = start + sequence.num_in_flight_tokens
        return pages[start // self.page_size : -(-end // self.page_size)] if end > start else []

    def _max_cached_pages(self, sequence: Sequence) -> int:
        """Full pages that the sequence may reuse so that at least one token is left to compute."""
        return (len(sequence.token_ids) - 1) // self.page_size

    def _cached_prefix(self, sequence: Sequence) -> list[int]:
        """The cached pages of the longest prefix of sequence whose last window is cached too."""
        if not (self.prefix_caching and sequence.may_reuse_prefix):
            return []
        self._extend_hashes(sequence)
        page_hashes = sequence.page_hashes[: self._max_cached_pages(sequence)]
        page_of_hash = self.pool.page_of_hash
        pages = [page_of_hash[page_hash] for page_hash in takewhile(page_of_hash.__contains__, page_hashes)]
        num_pages, previous = len(pages), -1
        while num_pages != previous:  # what one window shortens, another may shorten further
            previous = num_pages
            for window in self.windows:
                num_pages = window.longest_prefix(page_hashes, num_pages)
        return pages[:num_pages]

    def _extend_hashes(self, sequence: Sequence) -> None:
        extend_page_hashes(sequence.page_hashes, sequence.token_ids, self.page_size, sequence.cache_key)

    def _register_full_pages(self, sequence: Sequence) -> None:
        """Register the computed full pages of sequence whose hashes are not registered yet.

        Tokens in flight do not count: their ids may be unknown, and their values are not checked for NaN.
        """
        num_full_pages = sequence.num_computed_tokens // self.page_size
        if not self.prefix_caching or sequence.pooling or num_full_pages <= sequence.num_hashed_pages:
            return
        self._extend_hashes(sequence)
        first, sequence.num_hashed_pages = sequence.num_hashed_pages, num_full_pages
        new_pages = slice(first, num_full_pages)
        self.pool.register(sequence.pages[new_pages], sequence.page_hashes[new_pages])
        for window in self.windows:
            window.register(sequence, first, num_full_pages)
