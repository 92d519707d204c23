"""Who sits where: the memory is rows × columns, token t of a sequence is in column t of its row.

Integers only: it decides the moves, a runner carries them out. Live rows are 0 … R-1, so that decoding reads
a view; the rows above keep what was freed into them, to be found again by its prefix.
"""

from collections.abc import Sequence as Several
from dataclasses import dataclass

from inference.engine.pieces import FREE, Pieces
from inference.engine.prefix import MIN_GAIN, MIN_PREFIX, longest
from inference.engine.sequence import Sequence
from inference.engine.touched import Touched
from inference.model.batch import Clear, Copy, Move, Shape, Swap


@dataclass(slots=True)
class Kept:
    """What a free row still holds, and when it was last of use."""

    tokens: list[int]
    used: int


class Rows:
    """A Seating (see seating.py). `live[i]` sits in row i; `kept` maps rows above to what they still hold.

    Begins as 0 × 0: the first seat makes the shape. `moves` collects what the runner has yet to do, in order.
    """

    def __init__(
        self, *, max_rows: int, context: int, area: int, step: int, keeps: bool, pieces: Pieces = FREE
    ) -> None:
        self.max_rows = max_rows
        self.context = min(context, area)
        self.area = area
        self.step = step
        self.keeps = keeps
        self.pieces = pieces
        self.rows = 0
        self.columns = 0
        self.live: list[Sequence] = []
        self.kept: dict[int, Kept] = {}
        self.moves: list[Move] = []
        self._touched = Touched()
        self._clock = 0
        self._spoilt = False  # some row, nobody knows which, was to be blank and may not be

    def seat(self, sequence: Sequence) -> bool:
        """Give sequence the next row and the longest prefix that any row holds; False where there is no room.

        Sets its row and cached; leaves it at least one token to compute. Room means one `step` of columns
        more than it holds, and the live ones where the memory is reshaped: none is preempted soon after.
        """
        row, asked = len(self.live), self._ask(sequence)
        if row >= self.rows or asked > self.columns:
            asked = max(asked, *map(self._ask, self.live)) if self.live else asked
            if not self._shape(row + 1, asked):
                return False
        source, shared = self._match(sequence)
        self._fill(row, source, shared)
        sequence.row, sequence.cached = row, shared
        self.live.append(sequence)
        return True

    def widen(self) -> bool:
        """Have every live row hold all its sequence's tokens; False where the area is too small for that."""
        needed = max([len(sequence.tokens) for sequence in self.live], default=0)
        return needed <= self.columns or self._shape(len(self.live), needed)

    def release(self, sequence: Sequence, trusted: bool = True) -> None:
        """Free its row; the last live row takes its place, so what it held survives beyond the live rows.

        Sets its row to -1 and cached to 0. Not trusted: what the row holds is wiped out.
        """
        row, last = sequence.row, len(self.live) - 1
        if not trusted:
            self.moves.append(Clear(row))
        left = sequence.tokens[: self._lent(sequence)] if self.keeps and trusted else []
        mover = self.live.pop()
        if row < last:
            self.live[row], mover.row = mover, row
            self._swap(row, last, max(mover.cached, len(left)))
        if len(left) >= MIN_PREFIX:
            self.kept[last] = Kept(left, self._tick())
        sequence.row, sequence.cached = -1, 0

    def awaits(self, sequence: Sequence) -> bool:
        """Whether a live sequence is about to compute a prefix that this one would compute a second time.

        So it is while some live sequence, not yet through its prompt, shares MIN_GAIN tokens more with this
        one than any row holds so far.
        """
        if not self._reuses(sequence):
            return False
        computing = [(s.row, s.tokens, self.pieces.shared(s, len(s.tokens))) for s in self.live if s.todo > 1]
        promised = self.pieces.shared(sequence, longest(sequence.tokens, computing)[1])
        return promised >= MIN_GAIN and promised - self._match(sequence)[1] >= MIN_GAIN

    def spare(self, sequence: Sequence) -> int:
        """Tokens that its row has columns for behind its own."""
        return self.columns - len(sequence.tokens)

    def forget(self, lost: Several[Move] = ()) -> None:
        """Trust nothing in the memory: all rows free, back to 0 × 0."""
        self._spoilt |= any(isinstance(move, Clear) for move in (*lost, *self.moves))
        for sequence in self.live:
            sequence.row, sequence.cached = -1, 0
        self.live.clear()
        self.kept.clear()
        self.moves.clear()
        self.rows = self.columns = 0

    def shrink(self) -> None:
        """Make do with a smaller area from the next shape on: the present one was more than there is."""
        self.area = max(self.context, self.area * 3 // 4)

    def take_moves(self) -> list[Move]:
        """What the runner must do before it computes, in order; handed out once."""
        moves, self.moves = self.moves, []
        self._touched.move(moves)
        self._touched.write((row, max(len(s.tokens), len(s.source))) for row, s in enumerate(self.live))
        return moves

    @property
    def touched(self) -> int:
        return self._touched.tokens

    def check(self) -> None:
        """Assert that the plan is sound."""
        assert len(self.live) <= self.rows <= self.max_rows
        assert self.columns <= self.context and (
            self.columns == self.context or self.columns % self.step == 0
        )
        for row, sequence in enumerate(self.live):
            assert sequence.row == row, f"sequence {sequence.id} sits in {row}, thinks {sequence.row}"
            assert sequence.cached <= min(len(sequence.tokens), self.columns)
        for row, kept in self.kept.items():
            assert len(self.live) <= row < self.rows, f"kept row {row} is not free"
            assert len(kept.tokens) <= self.columns

    def _ask(self, sequence: Sequence) -> int:
        return min(len(sequence.tokens) + self.step, sequence.limit, self.context)

    def _shape(self, rows: int, columns: int) -> bool:
        """Reshape to at least rows × columns, with room to grow: twice the columns while the area allows, and
        never fewer than all max_rows could have at once."""
        least = self._round(columns)
        if rows > self.max_rows or rows * least > self.area:
            return False
        grown = min(self._round(2 * columns), self.area // rows // self.step * self.step)
        even = min(self.context, self.area // self.max_rows // self.step * self.step)
        self.columns = max(least, grown, even)
        self.rows = min(self.max_rows, self.area // self.columns)
        self.moves.append(Shape(self.rows, self.columns))
        if self._spoilt:
            self.moves += map(Clear, range(self.rows))
            self._spoilt = False
        self.kept = {
            row: Kept(kept.tokens[: self.columns], kept.used)
            for row, kept in self.kept.items()
            if row < self.rows
        }
        return True

    def _round(self, columns: int) -> int:
        return min(self.context, -(-columns // self.step) * self.step)

    def _match(self, sequence: Sequence) -> tuple[int, int]:
        """The row that holds the longest prefix of sequence, and how many tokens of it; (-1, 0) if none."""
        if not self._reuses(sequence):
            return -1, 0
        held = [(row, kept.tokens, len(kept.tokens)) for row, kept in self.kept.items()]
        held += [(live.row, live.tokens, self._lent(live)) for live in self.live]
        source, length = longest(sequence.tokens, held)
        shared = self.pieces.shared(sequence, length)
        return (source, shared) if shared else (-1, 0)

    def _lent(self, sequence: Sequence) -> int:
        """How many of the tokens that its row holds another may begin with."""
        return self.pieces.shared(sequence, sequence.cached)

    def _reuses(self, sequence: Sequence) -> bool:
        return self.keeps and sequence.task.prompt_logprobs is None

    def _fill(self, row: int, source: int, shared: int) -> None:
        """Have row begin with the shared tokens of source; what is lost for it is the least recently used.

        A kept row of which most is shared is taken over; one of which little is shared is copied from, as a
        live one is, so that a short common beginning does not cost a long memory.
        """
        held = self.kept.pop(row, None)
        lender = held if source == row else self.kept.get(source)
        if lender and 2 * shared >= len(lender.tokens):
            self._take_over(row, source, shared, held)
            return
        if lender:
            lender.used = self._tick()
        if held:
            self._save(row, held)
        if shared and source != row:
            self.moves.append(Copy(source, row, shared))

    def _take_over(self, row: int, source: int, shared: int, held: Kept | None) -> None:
        if source == row:
            return
        del self.kept[source]
        if held:
            self._swap(row, source, max(shared, len(held.tokens)))
            self.kept[source] = held
        else:
            self.moves.append(Copy(source, row, shared))

    def _save(self, row: int, held: Kept) -> None:
        """Copy what row holds over the least recently used content above it, if that is older."""
        used = {
            other: self.kept[other].used if other in self.kept else 0 for other in range(row + 1, self.rows)
        }
        victim = min(used, key=used.__getitem__, default=row)
        if used.get(victim, held.used) < held.used:
            self.moves.append(Copy(row, victim, len(held.tokens)))
            self.kept[victim] = held

    def _swap(self, a: int, b: int, columns: int) -> None:
        if columns:
            self.moves.append(Swap(a, b, columns))

    def _tick(self) -> int:
        self._clock += 1
        return self._clock
