"""How much of a rectangle of memory has ever been written to, row by row: the system gives memory when it is
written, not before.

Knows moves, and how long rows are; nothing of what stands in them.
"""

from collections.abc import Iterable

from inference.model.batch import Clear, Copy, Move, Shape, Swap


class Touched:
    """ends: of each row, the column up to which it was written."""

    def __init__(self) -> None:
        self.columns = 0
        self.ends: list[int] = []

    def move(self, moves: Iterable[Move]) -> None:
        """In order, as a runner does them."""
        for move in moves:
            match move:
                case Shape(rows, columns):
                    copied = [min(self.columns, columns)] * min(len(self.ends), rows)  # blank or not
                    self.ends = copied + [0] * (rows - len(copied))
                    self.columns = columns
                case Swap(a, b, columns):
                    self.write([(a, columns), (b, columns)])
                case Copy(_, target, columns):
                    self.write([(target, columns)])
                case Clear(row):
                    self.write([(row, self.columns)])

    def write(self, ends: Iterable[tuple[int, int]]) -> None:
        """Rows were written up to these columns."""
        for row, end in ends:
            self.ends[row] = max(self.ends[row], end)

    @property
    def tokens(self) -> int:
        return sum(self.ends)
