"""Index and value tensors on the device of the logits: one entry per row, or one per (row, token).

Knows shapes and devices; does not know what the values mean.
"""

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Sequence as SequenceOf
from itertools import chain

import torch
from torch import Tensor

from inference.engine.sequence import Sequence
from inference.model.device_copy import to_device

NEG_INF = float("-inf")

SequencesByRow = Mapping[int, Sequence]  # the rows of the logits to change, and their sequences
LogitIndices = tuple[Tensor, Tensor]  # rows and columns
NO_IDS = torch.empty(0, dtype=torch.int64)


def index_tensor(rows: Iterable[int], like: Tensor) -> Tensor:
    """Row numbers (n,), on the device of `like`."""
    return to_device(torch.tensor(list(rows), dtype=torch.int64), like.device)


def select_rows(logits: Tensor, rows: Collection[int]) -> Tensor:
    """The given rows (n, V) of the logits, ascending; the logits themselves if these are all rows."""
    if len(rows) == len(logits):
        return logits
    return logits.index_select(0, index_tensor(rows, logits))


def column_tensor(values: SequenceOf[float], like: Tensor) -> Tensor:
    """One value per row, (n, 1), on the device of `like`."""
    return to_device(torch.tensor(values, dtype=torch.float32)[:, None], like.device)


def find_indices(logits: Tensor, ids_by_row: Mapping[int, Tensor]) -> LogitIndices:
    """The indices of the ids (k,) of each row. Ids outside the vocabulary are omitted."""
    return _known_indices(logits, ids_by_row, torch.cat([NO_IDS, *ids_by_row.values()]))[0]


def find_indices_and_values(
    logits: Tensor, values_by_row: Mapping[int, Mapping[int, float]]
) -> tuple[LogitIndices, Tensor]:
    """Indices and values from row → id → value. Ids outside the vocabulary are omitted."""
    ids = torch.tensor(list(chain.from_iterable(values_by_row.values())), dtype=torch.int64)
    flat_values = chain.from_iterable(id_values.values() for id_values in values_by_row.values())
    values = torch.tensor(list(flat_values), dtype=torch.float32)
    indices, known = _known_indices(logits, values_by_row, ids)
    return indices, to_device(values[known], logits.device)


def fill(values: Tensor, indices: LogitIndices, value: float) -> None:
    """Set values[indices] to `value`, which is written on the device.

    `values[indices] = value` would copy the number to the device and wait for the copy.
    """
    values.index_put_(indices, values.new_full((), value))


def _known_indices(
    logits: Tensor, ids_by_row: Mapping[int, Tensor | Mapping[int, float]], ids: Tensor
) -> tuple[LogitIndices, Tensor]:
    """The indices of the ids inside the vocabulary, and a mask of them over all ids."""
    lengths = torch.tensor([len(each) for each in ids_by_row.values()], dtype=torch.int64)
    rows = torch.tensor(list(ids_by_row), dtype=torch.int64).repeat_interleave(lengths)
    known = (ids >= 0) & (ids < logits.shape[1])
    row_index, column_index = (to_device(t[known], logits.device) for t in (rows, ids))
    return (row_index, column_index), known
