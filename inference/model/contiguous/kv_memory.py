"""The contiguous KV memory: tensors of rows × columns, allocated at first use and changed by cache ops.

Knows rows, columns and bytes; not what the values mean.
"""

import torch

from inference.model.batch import CacheOp, Clear, Copy, Resize, Swap
from inference.model.lazy_zeros import lazy_zeros


class ContiguousMemory:
    """All tensors of a model's memory, with the same numbers of rows and columns."""

    def __init__(self) -> None:
        self.rows = self.columns = 0
        self.tensors: list[ContiguousTensor] = []

    def add_tensor(self, per_row: bool = False) -> "ContiguousTensor":
        tensor = ContiguousTensor(self, per_row)
        self.tensors.append(tensor)
        return tensor

    def apply(self, op: CacheOp) -> None:
        """Apply a cache op to one tensor after the other: during a resize, only one of them exists twice."""
        if isinstance(op, Resize):
            self.rows, self.columns = op.rows, op.columns
        for tensor in self.tensors:
            if tensor.data is not None:
                tensor.apply(tensor.data, op)

    def bytes_per_column(self) -> int:
        """Bytes of one column of one row in all tensors."""
        return sum(tensor.unit_bytes for tensor in self.tensors if not tensor.per_row)

    def bytes_per_row(self) -> int:
        """Bytes of a row in the tensors that do not grow with columns."""
        return sum(tensor.unit_bytes for tensor in self.tensors if tensor.per_row)


class ContiguousTensor:
    """One tensor: (rows, columns, …), or (rows, …) if `per_row`, whose size does not grow with columns."""

    def __init__(self, memory: ContiguousMemory, per_row: bool) -> None:
        self.memory, self.per_row = memory, per_row
        self.data: torch.Tensor | None = None

    def get_or_allocate(self, shape: tuple[int, ...], sample: torch.Tensor) -> torch.Tensor:
        """The tensor; the first call allocates it with `shape` after rows (and columns), like `sample`."""
        if self.data is None:
            head = (self.memory.rows,) if self.per_row else (self.memory.rows, self.memory.columns)
            self.data = lazy_zeros((*head, *shape), sample)
        return self.data

    def apply(self, data: torch.Tensor, op: CacheOp) -> None:
        if isinstance(op, Resize):
            self.data = resized(data, op.rows, data.shape[1] if self.per_row else op.columns)
            return
        if isinstance(op, Clear):
            data[op.row] = 0
            return
        columns = slice(None if self.per_row else op.columns)
        if isinstance(op, Copy):
            data[op.target, columns] = data[op.source, columns]
        elif isinstance(op, Swap):
            saved = data[op.a, columns].clone()
            data[op.a, columns] = data[op.b, columns]
            data[op.b, columns] = saved

    def widen(self, size: int) -> None:
        """Extend the second dimension of a per-row tensor to at least `size`."""
        if self.data is not None and self.data.shape[1] < size:
            self.data = resized(self.data, self.data.shape[0], size)

    @property
    def unit_bytes(self) -> int:
        """Bytes of a row if per_row, else of one column of a row; 0 before the tensor is allocated."""
        if self.data is None:
            return 0
        return self.data[0].nbytes if self.per_row else self.data[0, 0].nbytes


def resized(old: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """A tensor of rows × columns with the contents of `old` that fit."""
    new = lazy_zeros((rows, columns, *old.shape[2:]), old)
    rows, columns = min(rows, old.shape[0]), min(columns, old.shape[1])
    new[:rows, :columns] = old[:rows, :columns]
    return new
