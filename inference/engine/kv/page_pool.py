"""The pages of one cache group (see model/paged/kv_pool.py): free, listed by sequences, or cached.

A registered page can be found by the hash of all tokens up to its end, also after no sequence lists it, until
other tokens need it. Integers only; knows no sequences.
"""

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable
from collections.abc import Sequence as SequenceOf

from inference.model.batch import CacheOp, Clear


class PagePool:
    """`num_pages` pages of cache group `group`.

    free_pages    pages without reusable content
    ref_count     by page, how many sequences list it
    page_of_hash  registered full pages by the hash of all tokens up to their end
    hash_of_page  the inverse of page_of_hash
    evictable     registered pages that no sequence lists, least recently used first
    """

    def __init__(self, num_pages: int, group: int = 0) -> None:
        self.num_pages, self.group = num_pages, group
        self._never_used = set(range(num_pages))
        self.reset()

    def reset(self) -> None:
        """Make all pages free."""
        self.free_pages = set(range(self.num_pages))
        self.ref_count: Counter[int] = Counter()
        self.page_of_hash: dict[bytes, int] = {}
        self.hash_of_page: dict[int, bytes] = {}
        self.evictable: OrderedDict[int, None] = OrderedDict()

    @property
    def num_available(self) -> int:
        """Pages that `extend` can take."""
        return len(self.free_pages) + len(self.evictable)

    @property
    def num_touched(self) -> int:
        """Pages that were taken at least once."""
        return self.num_pages - len(self._never_used)

    def num_available_after(self, cached_pages: Iterable[int]) -> int:
        """Pages that `extend` can take once these cached pages are listed."""
        return self.num_available - sum(page in self.evictable for page in cached_pages)

    def extend(self, pages: list[int], num_pages: int) -> None:
        """Append pages to the list of a sequence, until it has num_pages."""
        while len(pages) < num_pages:
            page = self._pop_page(pages[-1] + 1 if pages else 0)
            self._never_used.discard(page)
            self.ref_count[page] += 1
            pages.append(page)

    def share(self, cached_pages: Iterable[int]) -> None:
        """Count another sequence that lists these cached pages."""
        for page in cached_pages:
            self.evictable.pop(page, None)
            self.ref_count[page] += 1

    def register(self, pages: SequenceOf[int], page_hashes: SequenceOf[bytes]) -> None:
        """Cache full pages under their hashes; the first page with a hash stays registered."""
        for page, page_hash in zip(pages, page_hashes, strict=True):
            if page_hash not in self.page_of_hash and page not in self.hash_of_page:
                self.page_of_hash[page_hash] = page
                self.hash_of_page[page] = page_hash

    def release(self, pages: Iterable[int], dirty: Collection[int]) -> list[CacheOp]:
        """Count one sequence less that lists these pages; returns the ops that clear them.

        dirty: pages that must not be reused. They are cleared, unless another sequence lists them.
        """
        clears: list[CacheOp] = []
        for page in pages:
            self.ref_count[page] -= 1
            if self.ref_count[page]:
                continue
            del self.ref_count[page]
            if page not in dirty and page in self.hash_of_page:
                self.evictable[page] = None
                continue
            if page in self.hash_of_page:
                del self.page_of_hash[self.hash_of_page.pop(page)]
            self.free_pages.add(page)
            if page in dirty:
                clears.append(Clear(page, self.group))
        return clears

    def check_integrity(self, listed_pages: Counter[int]) -> None:
        """Assert that every page is free, listed or evictable, and that counts and hashes agree."""
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
