"""What rows remember, as tensors: made when first needed, moved and reshaped as a Batch says.

Knows rows, columns and bytes; not what the numbers mean.
"""

import torch

from inference.model.batch import Clear, Copy, Move, Shape, Swap
from inference.model.blank import blank


class Memory:
    """All tables of a model, in the same number of rows and columns."""

    def __init__(self) -> None:
        self.rows = self.columns = 0
        self.tables: list[Table] = []

    def table(self, whole: bool = False) -> "Table":
        table = Table(self, whole)
        self.tables.append(table)
        return table

    def do(self, move: Move) -> None:
        """Do it in every table, one after the other: while reshaping, only one is held twice."""
        if isinstance(move, Shape):
            self.rows, self.columns = move.rows, move.columns
        for table in self.tables:
            if table.data is not None:
                table.move(table.data, move)

    def bytes_per_column(self) -> int:
        """Bytes that one column of one row takes in all tables."""
        return sum(table.unit_bytes for table in self.tables if not table.whole)

    def bytes_per_row(self) -> int:
        """Bytes that a row takes besides its columns."""
        return sum(table.unit_bytes for table in self.tables if table.whole)


class Table:
    """One tensor, (rows, columns, …), or (rows, …) where `whole` rows are kept and columns mean nothing."""

    def __init__(self, memory: Memory, whole: bool) -> None:
        self.memory, self.whole = memory, whole
        self.data: torch.Tensor | None = None

    def like(self, shape: tuple[int, ...], sample: torch.Tensor) -> torch.Tensor:
        """The tensor, made now if it is not there yet, with `shape` behind rows (and columns)."""
        if self.data is None:
            head = (self.memory.rows,) if self.whole else (self.memory.rows, self.memory.columns)
            self.data = blank((*head, *shape), sample)
        return self.data

    def move(self, data: torch.Tensor, move: Move) -> None:
        if isinstance(move, Shape):
            self.data = reshaped(data, move.rows, data.shape[1] if self.whole else move.columns)
            return
        if isinstance(move, Clear):
            data[move.row] = 0
            return
        columns = slice(None if self.whole else move.columns)
        if isinstance(move, Copy):
            data[move.target, columns] = data[move.source, columns]
        elif isinstance(move, Swap):
            kept = data[move.a, columns].clone()
            data[move.a, columns] = data[move.b, columns]
            data[move.b, columns] = kept

    def widen(self, size: int) -> None:
        """Make the second dimension of a whole table at least `size`."""
        if self.data is not None and self.data.shape[1] < size:
            self.data = reshaped(self.data, self.data.shape[0], size)

    @property
    def unit_bytes(self) -> int:
        """Bytes of a row if whole, else of a column of a row; 0 before there is a tensor."""
        if self.data is None:
            return 0
        return self.data[0].nbytes if self.whole else self.data[0, 0].nbytes


def reshaped(old: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """A tensor of rows × columns that holds what fits of the old one."""
    new = blank((rows, columns, *old.shape[2:]), old)
    rows, columns = min(rows, old.shape[0]), min(columns, old.shape[1])
    new[:rows, :columns] = old[:rows, :columns]
    return new
