"""Paged KV memory: each sequence lists the pages of its tokens, in order.

Sequences with a common prefix share its full pages. Pages of ended sequences stay cached until other tokens
need them. Integers only: the manager assigns pages, a runner reads and writes them.
"""

from collections import Counter, OrderedDict
from collections.abc import Sequence as SequenceOf
from itertools import takewhile

from inference.engine.kv.prefix import MIN_GAIN, extend_page_hashes, num_shared_pages
from inference.engine.sequence import Sequence
from inference.model.batch import CacheOp, Clear


class PagedKVCacheManager:
    """A KVCacheManager (see manager.py).

    free_pages    pages without reusable content
    ref_count     by page, how many sequences list it
    page_of_hash  registered full pages by the hash of all tokens up to their end
    hash_of_page  the inverse of page_of_hash
    evictable     registered pages that no sequence lists, least recently used first
    cache_ops     ops that the runner has yet to carry out, in order
    """

    def __init__(
        self, *, max_sequences: int, context: int, kv_capacity: int, page_size: int, prefix_caching: bool
    ) -> None:
        self.max_sequences = max_sequences
        self.page_size = page_size
        self.num_pages = kv_capacity // page_size
        self.kv_capacity = self.num_pages * page_size
        self.context = min(context, self.kv_capacity)
        self.prefix_caching = prefix_caching
        self.active: list[Sequence] = []
        self.cache_ops: list[CacheOp] = []
        self._never_used = set(range(self.num_pages))
        self._clear()

    def _clear(self) -> None:
        self.free_pages = set(range(self.num_pages))
        self.ref_count: Counter[int] = Counter()
        self.page_of_hash: dict[bytes, int] = {}
        self.hash_of_page: dict[int, bytes] = {}
        self.evictable: OrderedDict[int, None] = OrderedDict()

    def allocate(self, sequence: Sequence) -> bool:
        """Give sequence its pages, the longest cached prefix among them; False if too few pages are free.

        Requires one free page beyond the sequence's tokens, and one for each active sequence that may grow.
        """
        if len(self.active) >= self.max_sequences:
            return False
        sequence.max_pages = -(-min(sequence.max_len, self.context) // self.page_size)
        cached_pages = self._cached_prefix(sequence)
        num_new_pages = self._num_pages_needed(sequence, extra=1) - len(cached_pages)
        num_available = (
            len(self.free_pages) + len(self.evictable) - sum(page in self.evictable for page in cached_pages)
        )
        num_growing = sum(len(other.pages) < other.max_pages for other in self.active)
        if num_new_pages + num_growing > num_available:
            return False
        for page in cached_pages:
            self.evictable.pop(page, None)
            self.ref_count[page] += 1
        sequence.row = min(set(range(self.max_sequences)) - {other.row for other in self.active})
        sequence.pages, sequence.num_hashed_pages = cached_pages, len(cached_pages)
        sequence.num_computed_tokens = len(cached_pages) * self.page_size
        self.active.append(sequence)
        self._extend(sequence, self._num_pages_needed(sequence))
        return True

    def grow(self) -> bool:
        """Give every active sequence the pages of its tokens and, if enough are free, one more each.

        False if there are too few pages for the tokens.
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
                if num_pages - len(sequence.pages) > len(self.free_pages) + len(self.evictable):
                    return bool(extra)
                self._extend(sequence, num_pages)
        return True

    def free(self, sequence: Sequence, reusable: bool = True) -> None:
        """Free the pages of sequence, last page first: a cached page is useless without those before it.

        If not reusable, pages that no other sequence lists are cleared. Pages that a step in flight writes
        are cleared too: what it writes is not checked any more, and may be NaN. The steps in flight are done
        with a page before the next step clears it: the device carries out steps in order.
        """
        if reusable:
            self._register_full_pages(sequence)
        self.active.remove(sequence)
        pages_in_flight = set(self._pages_in_flight(sequence))
        for page in reversed(sequence.pages):
            self._release(page, reusable and page not in pages_in_flight)
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
        return len(sequence.pages) * self.page_size - sequence.num_tokens

    def reset(self, lost_ops: SequenceOf[CacheOp] = ()) -> None:
        for sequence in self.active:
            self.cache_ops += map(Clear, self._pages_in_flight(sequence))
            sequence.clear_placement()
        self.active.clear()
        self.restore_ops(lost_ops)
        self._clear()

    def shrink(self) -> None:
        """Does nothing: the page pool is allocated at start and keeps its size."""

    def take_ops(self) -> list[CacheOp]:
        cache_ops, self.cache_ops = self.cache_ops, []
        return cache_ops

    def restore_ops(self, lost_ops: SequenceOf[CacheOp]) -> None:
        """Take back ops of `take_ops` that may not have been carried out: the next step does them first."""
        self.cache_ops[:0] = lost_ops

    @property
    def slots_per_page(self) -> int:
        return self.page_size

    @property
    def used_tokens(self) -> int:
        return (self.num_pages - len(self.free_pages) - len(self.evictable)) * self.page_size

    @property
    def touched_tokens(self) -> int:
        return (self.num_pages - len(self._never_used)) * self.page_size

    def check_integrity(self) -> None:
        """Assert that every page is free, listed or evictable, and that counts and hashes agree."""
        listed_pages = Counter(page for sequence in self.active for page in sequence.pages)
        assert listed_pages == +self.ref_count, (
            "the reference counts differ from the pages that sequences list"
        )
        assert not self.free_pages & listed_pages.keys() and not self.free_pages & self.evictable.keys()
        assert not listed_pages.keys() & self.evictable.keys()
        assert len(self.free_pages) + len(listed_pages) + len(self.evictable) == self.num_pages, (
            "a page is lost"
        )
        assert (
            self.hash_of_page.keys() >= self.evictable.keys()
            and not self.hash_of_page.keys() & self.free_pages
        )
        assert self.page_of_hash == {page_hash: page for page, page_hash in self.hash_of_page.items()}
        for sequence in self.active:
            assert len(set(sequence.pages)) == len(sequence.pages)
            num_written = sequence.num_computed_tokens + sequence.num_in_flight_tokens
            assert num_written <= len(sequence.pages) * self.page_size
            assert sequence.num_hashed_pages * self.page_size <= sequence.num_computed_tokens

    def _num_pages_needed(self, sequence: Sequence, extra: int = 0) -> int:
        """Pages of the sequence's tokens, plus up to `extra` pages within its maximum length."""
        num_pages = -(-sequence.num_tokens // self.page_size)
        return max(num_pages, min(num_pages + extra, sequence.max_pages))

    def _pages_in_flight(self, sequence: Sequence) -> list[int]:
        """The pages that steps in flight write. No other sequence lists them: they are not registered."""
        start = sequence.num_computed_tokens
        end = start + sequence.num_in_flight_tokens
        return sequence.pages[start // self.page_size : -(-end // self.page_size)] if end > start else []

    def _max_cached_pages(self, sequence: Sequence) -> int:
        """Full pages that the sequence may reuse so that at least one token is left to compute."""
        return (len(sequence.token_ids) - 1) // self.page_size

    def _cached_prefix(self, sequence: Sequence) -> list[int]:
        """The cached pages of the longest prefix of sequence."""
        if not (self.prefix_caching and sequence.may_reuse_prefix):
            return []
        self._extend_hashes(sequence)
        page_hashes = sequence.page_hashes[: self._max_cached_pages(sequence)]
        return [
            self.page_of_hash[page_hash]
            for page_hash in takewhile(self.page_of_hash.__contains__, page_hashes)
        ]

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
        for page, page_hash in zip(
            sequence.pages[sequence.num_hashed_pages : num_full_pages],
            sequence.page_hashes[sequence.num_hashed_pages : num_full_pages],
            strict=True,
        ):
            if page_hash not in self.page_of_hash and page not in self.hash_of_page:
                self.page_of_hash[page_hash] = page
                self.hash_of_page[page] = page_hash
        sequence.num_hashed_pages = num_full_pages

    def _extend(self, sequence: Sequence, num_pages: int) -> None:
        while len(sequence.pages) < num_pages:
            page = self._pop_page(sequence.pages[-1] + 1 if sequence.pages else 0)
            self._never_used.discard(page)
            self.ref_count[page] += 1
            sequence.pages.append(page)

    def _pop_page(self, preferred: int) -> int:
        """Take the page `preferred`, else any free page, else the least recently used evictable page.

        Consecutive pages are preferred because they can be read without a copy.
        """
        if preferred in self.free_pages:
            self.free_pages.remove(preferred)
            return preferred
        if self.free_pages:
            return self.free_pages.pop()
        page, _ = self.evictable.popitem(last=False)
        del self.page_of_hash[self.hash_of_page.pop(page)]
        return page

    def _release(self, page: int, reusable: bool) -> None:
        self.ref_count[page] -= 1
        if self.ref_count[page]:
            return
        del self.ref_count[page]
        if reusable and page in self.hash_of_page:
            self.evictable[page] = None
            return
        if page in self.hash_of_page:
            del self.page_of_hash[self.hash_of_page.pop(page)]
        self.free_pages.add(page)
        if not reusable:
            self.cache_ops.append(Clear(page))
