"""Who sits where, in a memory of pages: a sequence lists those that its tokens stand in, in order.

A page that is full is shared by all that begin alike, and is found again after they have left, until it is
needed for others. Integers only: it decides, a runner writes and reads.
"""

from collections import Counter, OrderedDict
from collections.abc import Sequence as Several
from itertools import takewhile

from inference.engine.chain import lengthen, shared
from inference.engine.prefix import MIN_GAIN
from inference.engine.sequence import Sequence
from inference.model.batch import Clear, Move


class Pages:
    """A Seating (see seating.py).

    free   pages that hold nothing of use
    uses   by page, how many sequences list it
    named  full pages by the chain of all tokens up to their last; `names` the other way round
    kept   named pages that no sequence lists, the least recently used first
    """

    def __init__(self, *, max_rows: int, context: int, area: int, step: int, keeps: bool) -> None:
        self.max_rows = max_rows
        self.size = step
        self.count = area // step
        self.area = self.count * step
        self.context = min(context, self.area)
        self.keeps = keeps
        self.live: list[Sequence] = []
        self.moves: list[Move] = []
        self._fresh = set(range(self.count))
        self._blank()

    def _blank(self) -> None:
        self.free = set(range(self.count))
        self.uses: Counter[int] = Counter()
        self.named: dict[bytes, int] = {}
        self.names: dict[int, bytes] = {}
        self.kept: OrderedDict[int, None] = OrderedDict()

    def seat(self, sequence: Sequence) -> bool:
        """Give sequence its pages, those of its longest known prefix among them; False if too few are left.

        Room means one more page than its tokens take, and one for each live sequence that may come to need
        one.
        """
        if len(self.live) >= self.max_rows:
            return False
        found = self._found(sequence)
        more = self._needed(sequence, ahead=1) - len(found)
        left = len(self.free) + len(self.kept) - sum(page in self.kept for page in found)
        growing = sum(len(each.pages) < self._most(each) for each in self.live)
        if more + growing > left:
            return False
        for page in found:
            self._use(page)
        sequence.pages, sequence.filed = found, len(found)
        sequence.row, sequence.cached = self._row(), len(found) * self.size
        self.live.append(sequence)
        self._grow(sequence, self._needed(sequence))
        return True

    def widen(self) -> bool:
        """Have every live sequence's pages hold its tokens, and where there are enough, some more."""
        for sequence in self.live:
            self._name(sequence)
        for ahead in (0, 1):
            for sequence in self.live:
                needed = self._needed(sequence, ahead)
                if needed - len(sequence.pages) > len(self.free) + len(self.kept):
                    return bool(ahead)
                self._grow(sequence, needed)
        return True

    def release(self, sequence: Sequence, trusted: bool = True) -> None:
        """Free its pages, the last first: what is behind a page is of no use without it.

        Not trusted: those that are only its own are blank again.
        """
        if trusted:
            self._name(sequence)
        self.live.remove(sequence)
        for page in reversed(sequence.pages):
            self._leave(page, trusted)
        unseat(sequence)

    def awaits(self, sequence: Sequence) -> bool:
        """Whether a live sequence, not yet through its prompt, shares MIN_GAIN tokens more with this one than
        are known."""
        if not self._reuses(sequence):
            return False
        self._lengthen(sequence)
        limit = self._limit(sequence)
        computing = (other for other in self.live if other.todo > 1)
        promised = max((shared(sequence.chain[:limit], other.chain) for other in computing), default=0)
        return (promised - len(self._found(sequence))) * self.size >= MIN_GAIN

    def spare(self, sequence: Sequence) -> int:
        return len(sequence.pages) * self.size - len(sequence.tokens)

    def wipe(self, page: int) -> None:
        """Have a page blank before anything is computed again: what no sequence counts on was written there,
        and is not a number."""
        self.moves.append(Clear(page))

    def forget(self, lost: Several[Move] = ()) -> None:
        for sequence in self.live:
            unseat(sequence)
        self.live.clear()
        self.moves[:0] = lost
        self._blank()

    def shrink(self) -> None:
        """The pages were all made at the start: there is nothing to make smaller."""

    def take_moves(self) -> list[Move]:
        moves, self.moves = self.moves, []
        return moves

    @property
    def touched(self) -> int:
        return (self.count - len(self._fresh)) * self.size

    def check(self) -> None:
        """Every page is free, listed or kept, and what it is said to be."""
        listed = Counter(page for sequence in self.live for page in sequence.pages)
        assert listed == +self.uses, "pages are listed by others than are counted"
        assert not self.free & listed.keys() and not self.free & self.kept.keys()
        assert not listed.keys() & self.kept.keys()
        assert len(self.free) + len(listed) + len(self.kept) == self.count, "a page is lost"
        assert self.names.keys() >= self.kept.keys() and not self.names.keys() & self.free
        assert self.named == {name: page for page, name in self.names.items()}
        for sequence in self.live:
            assert len(set(sequence.pages)) == len(sequence.pages)
            assert sequence.cached <= len(sequence.pages) * self.size

    def _needed(self, sequence: Sequence, ahead: int = 0) -> int:
        """Pages that its tokens take, and so many more as it can come to need."""
        tokens = -(-len(sequence.tokens) // self.size)
        return max(tokens, min(tokens + ahead, self._most(sequence)))

    def _most(self, sequence: Sequence) -> int:
        """Pages that it takes at its end."""
        return -(-min(sequence.limit, self.context) // self.size)

    def _limit(self, sequence: Sequence) -> int:
        """Full pages it may begin with, and still have a token to compute."""
        return (len(sequence.tokens) - 1) // self.size

    def _reuses(self, sequence: Sequence) -> bool:
        return self.keeps and sequence.task.prompt_logprobs is None

    def _found(self, sequence: Sequence) -> list[int]:
        """The pages that hold its longest known prefix."""
        if not self._reuses(sequence):
            return []
        self._lengthen(sequence)
        names = sequence.chain[: self._limit(sequence)]
        return [self.named[name] for name in takewhile(self.named.__contains__, names)]

    def _lengthen(self, sequence: Sequence) -> None:
        lengthen(sequence.chain, sequence.tokens, self.size)

    def _name(self, sequence: Sequence) -> None:
        """Make those of its pages that are full known, unless others are by that name."""
        full = sequence.cached // self.size
        if not self.keeps or full <= sequence.filed:
            return
        self._lengthen(sequence)
        for page, name in zip(
            sequence.pages[sequence.filed : full], sequence.chain[sequence.filed : full], strict=True
        ):
            if name not in self.named and page not in self.names:
                self.named[name] = page
                self.names[page] = name
        sequence.filed = full

    def _row(self) -> int:
        return min(set(range(self.max_rows)) - {sequence.row for sequence in self.live})

    def _grow(self, sequence: Sequence, needed: int) -> None:
        while len(sequence.pages) < needed:
            page = self._take(sequence.pages[-1] + 1 if sequence.pages else 0)
            self._fresh.discard(page)
            self.uses[page] += 1
            sequence.pages.append(page)

    def _take(self, wished: int) -> int:
        """A page to write to: the one wished for, as pages in a run are read without a copy, or another free
        one, or the one kept that was of no use for longest."""
        if wished in self.free:
            self.free.remove(wished)
            return wished
        if self.free:
            return self.free.pop()
        page, _ = self.kept.popitem(last=False)
        del self.named[self.names.pop(page)]
        return page

    def _use(self, page: int) -> None:
        self.kept.pop(page, None)
        self.uses[page] += 1

    def _leave(self, page: int, trusted: bool) -> None:
        self.uses[page] -= 1
        if self.uses[page]:
            return
        del self.uses[page]
        if trusted and page in self.names:
            self.kept[page] = None
            return
        if page in self.names:
            del self.named[self.names.pop(page)]
        self.free.add(page)
        if not trusted:
            self.moves.append(Clear(page))


def unseat(sequence: Sequence) -> None:
    sequence.pages = []
    sequence.row, sequence.cached, sequence.filed = -1, 0, 0
