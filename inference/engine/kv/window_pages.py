"""The pages of the layers with one sliding window: a sequence lists only those that its window still reaches.

Pages behind the window are free for other tokens at once, or cached until other tokens need them. A prompt
gets its pages step by step. Integers only: paged.py decides which sequences have memory.
"""

from collections import Counter
from collections.abc import Iterable
from collections.abc import Sequence as SequenceOf

from inference.engine.kv.page_pool import PagePool
from inference.engine.sequence import Sequence
from inference.model.batch import CacheOp
from inference.model.kv_cost import WindowGroup, window_pages


class WindowPages:
    """The pages of window group `index` of the runner: those of sequence.window_pages[index].

    A sequence lists a page for each `page_size` of its tokens, as in Sequence.pages; behind its window that
    is the null page.

    row_pages  pages that a sequence needs to decode: those of its window, and one that it grows into
    """

    def __init__(self, window_group: WindowGroup, index: int, page_size: int, max_pages: int) -> None:
        self.window, self.null_page = window_group.window, window_group.null_page
        self.index, self.page_size = index, page_size
        self.row_pages = window_pages(self.window, page_size) + 1
        self.pool = PagePool(window_group.num_pages, group=1 + index)
        assert self.pool.num_pages >= min(self.row_pages, max_pages), "one row must fit"

    def longest_prefix(self, page_hashes: SequenceOf[bytes], num_pages: int) -> int:
        """The most pages, at most num_pages, that a prefix can have whose last window is cached."""
        while num_pages:
            window = range(self._first_page(num_pages * self.page_size), num_pages)
            missing = (i for i in reversed(window) if page_hashes[i] not in self.pool.page_of_hash)
            if (last_missing := next(missing, None)) is None:
                return num_pages
            num_pages = last_missing
        return 0

    def has_room(self, sequence: Sequence, num_cached_pages: int, active: Iterable[Sequence]) -> bool:
        """Whether the pages suffice for `sequence` to decode, beside what active sequences still need to."""
        cached_pages = self._cached_window(sequence, num_cached_pages)
        num_needed = min(self.row_pages, sequence.max_pages) - len(cached_pages)
        return num_needed + self._num_claimed(active) <= self.pool.num_available_after(cached_pages)

    def allocate(self, sequence: Sequence, num_cached_pages: int) -> None:
        """List the last window of the cached prefix, and a page for the next token."""
        cached_pages = self._cached_window(sequence, num_cached_pages)
        self.pool.share(cached_pages)
        pages = [self.null_page] * (num_cached_pages - len(cached_pages)) + cached_pages
        self.pool.extend(pages, num_cached_pages + 1)
        sequence.window_pages.append(pages)

    def grow(self, active: SequenceOf[Sequence]) -> bool:
        """Free the pages behind all windows, and list a page for the next token of each sequence.

        Lists one more for each if enough are free. False if there are too few pages for the next tokens.
        """
        for sequence in active:
            self._release_behind(sequence)
        for extra in (0, 1):
            for sequence in active:
                num_pages = min(self._num_pages_needed(sequence) + extra, sequence.max_pages)
                pages = sequence.window_pages[self.index]
                if num_pages - len(pages) > self.pool.num_available:
                    return bool(extra)
                self.pool.extend(pages, num_pages)
        return True

    def reserve(self, sequence: Sequence, num_tokens: int, active: Iterable[Sequence]) -> int:
        """List pages for the next num_tokens tokens; returns how many of these have pages, at least one.

        Leaves the pages that active sequences need to decode.
        """
        pages = sequence.window_pages[self.index]
        start = sequence.num_computed_tokens + sequence.num_in_flight_tokens
        num_spare = max(0, self.pool.num_available - self._num_claimed(active))
        num_allowed = len(pages) + self._num_missing(sequence) + num_spare
        num_pages = min(-(-(start + num_tokens) // self.page_size), num_allowed)
        self.pool.extend(pages, min(num_pages, len(pages) + self.pool.num_available))
        return min(num_tokens, len(pages) * self.page_size - start)

    def register(self, sequence: Sequence, first: int, end: int) -> None:
        """Cache the pages [first, end), which are computed and hashed."""
        self.pool.register(sequence.window_pages[self.index][first:end], sequence.page_hashes[first:end])

    def free(self, sequence: Sequence, dirty: Iterable[int] | None) -> list[CacheOp]:
        """Free the sequence's pages; returns the ops that clear `dirty` pages. None: all are dirty."""
        pages = [page for page in sequence.window_pages[self.index] if page != self.null_page]
        return self.pool.release(pages, dirty=set(pages if dirty is None else dirty))

    def check_integrity(self, active: Iterable[Sequence]) -> None:
        """Assert that the bookkeeping is consistent, and that each window has its pages."""
        listed_pages: Counter[int] = Counter()
        for sequence in active:
            pages = sequence.window_pages[self.index]
            first = self._first_page(sequence.num_computed_tokens)
            assert self.null_page not in pages[first:], "a page within the window is freed"
            num_written = sequence.num_computed_tokens + sequence.num_in_flight_tokens
            assert num_written <= len(pages) * self.page_size
            listed_pages.update(page for page in pages if page != self.null_page)
        self.pool.check_integrity(listed_pages)

    def _first_page(self, num_tokens: int) -> int:
        """The first page that the token behind num_tokens others attends to."""
        return max(0, num_tokens - self.window + 1) // self.page_size

    def _cached_window(self, sequence: Sequence, num_cached_pages: int) -> list[int]:
        """The cached pages of the last window of a cached prefix."""
        first = self._first_page(num_cached_pages * self.page_size)
        return [
            self.pool.page_of_hash[page_hash] for page_hash in sequence.page_hashes[first:num_cached_pages]
        ]

    def _num_pages_needed(self, sequence: Sequence) -> int:
        """Pages up to the sequence's next token."""
        num_scheduled_tokens = sequence.num_computed_tokens + sequence.num_in_flight_tokens
        return -(-min(num_scheduled_tokens + 1, sequence.num_tokens) // self.page_size)

    def _num_missing(self, sequence: Sequence) -> int:
        """Pages that the sequence still needs to decode."""
        num_pages = len(sequence.window_pages[self.index])
        num_listed = max(0, num_pages - self._first_page(sequence.num_computed_tokens))
        return max(0, min(self.row_pages, sequence.max_pages) - num_listed)

    def _num_claimed(self, active: Iterable[Sequence]) -> int:
        """Pages that active sequences still need to decode."""
        return sum(map(self._num_missing, active))

    def _release_behind(self, sequence: Sequence) -> None:
        """Free the pages behind the window of the next token."""
        pages = sequence.window_pages[self.index]
        end = first = self._first_page(sequence.num_computed_tokens)
        while first and pages[first - 1] != self.null_page:
            first -= 1
        self.pool.release(pages[first:end], dirty=())
        pages[first:end] = [self.null_page] * (end - first)
