"""How much of the contiguous KV memory was ever written: the OS allocates memory at the first write.

Knows cache ops and row lengths; knows no contents.
"""

from collections.abc import Iterable

from inference.model.batch import CacheOp, Clear, Copy, Resize, Swap


class HighWaterMark:
    """row_ends[row]: the column up to which the row was ever written. num_columns: columns of a row."""

    def __init__(self) -> None:
        self.num_columns = 0
        self.row_ends: list[int] = []

    def apply(self, cache_ops: Iterable[CacheOp]) -> None:
        """Account for the ops in the order in which a runner carries them out."""
        for op in cache_ops:
            match op:
                case Resize(rows, num_columns):
                    num_copied = min(len(self.row_ends), rows)  # a resize copies whole rows
                    copied_ends = [min(self.num_columns, num_columns)] * num_copied
                    self.row_ends = copied_ends + [0] * (rows - num_copied)
                    self.num_columns = num_columns
                case Swap(a, b, num_columns):
                    self.mark_written([(a, num_columns), (b, num_columns)])
                case Copy(_, target, num_columns):
                    self.mark_written([(target, num_columns)])
                case Clear(row):
                    self.mark_written([(row, self.num_columns)])

    def mark_written(self, row_ends: Iterable[tuple[int, int]]) -> None:
        """Account for writes: (row, end) for a row written up to column `end`."""
        for row, end in row_ends:
            self.row_ends[row] = max(self.row_ends[row], end)

    @property
    def num_tokens(self) -> int:
        return sum(self.row_ends)
