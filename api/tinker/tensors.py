"""The tensors of Tinker's bodies: dense or sparse (CSR), checked before anything is allocated for them.

Knows arrays; not how JSON or protobuf carries them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inference.errors import BadRequest

Array = np.ndarray[Any, np.dtype[Any]]

MAX_COLUMNS = 64  # of a sparse tensor: 3 numbers must not become a dense tensor of any size
FLOAT, INTEGER = np.dtype("<f4"), np.dtype("<i8")
TOKEN = np.dtype("<i4")  # of token ids in a body
DTYPES: dict[str, np.dtype[Any]] = {"float32": FLOAT, "int64": INTEGER}


@dataclass(frozen=True, slots=True)
class Csr:
    """Where the values of a sparse tensor are.

    Row i has the values from row_starts[i] to row_starts[i + 1], and their columns.
    """

    row_starts: Array  # (N + 1,) int64
    columns: Array  # (values,) int64


@dataclass(frozen=True, slots=True)
class Tensor:
    """A dense or sparse tensor of a body.

    values: flat, float32 or int64. shape: as the client says; None: that of `values`. csr: None: dense.
    """

    values: Array
    shape: Sequence[int] | None = None
    csr: Csr | None = None


def to_dense(tensor: Tensor, field: str) -> Array:
    """The array of the tensor's shape, with 0 where a sparse one has nothing. Raises BadRequest."""
    shape = tuple(tensor.shape) if tensor.shape is not None else (len(tensor.values),)
    if any(size < 0 for size in shape):
        raise BadRequest(f"{field}.shape", "must have no negative size", list(shape))
    if tensor.csr is not None:
        return _scatter(tensor.values, tensor.csr, shape, field)
    if math.prod(shape) != len(tensor.values):
        raise BadRequest(
            f"{field}.shape", f"must be that of the {len(tensor.values)} numbers in data", list(shape)
        )
    return tensor.values.reshape(shape)


def _scatter(values: Array, csr: Csr, shape: tuple[int, ...], field: str) -> Array:
    if len(shape) != 2 or shape[1] > MAX_COLUMNS:
        raise BadRequest(
            f"{field}.shape", f"must be [N, K] with K up to {MAX_COLUMNS}, as it is sparse", list(shape)
        )
    num_rows, num_columns = shape
    starts = csr.row_starts
    rises = len(starts) == num_rows + 1 and (starts[1:] >= starts[:-1]).all()  # differences may overflow
    if not rises or starts[0] != 0 or starts[-1] != len(values):
        rule = f"must have {num_rows + 1} numbers that rise from 0 to {len(values)}, the number of values"
        raise BadRequest(f"{field}.sparse_crow_indices", rule)
    if len(csr.columns) != len(values):
        rule = f"must have a column for each of {len(values)} values"
        raise BadRequest(f"{field}.sparse_col_indices", rule, len(csr.columns))
    if ((csr.columns < 0) | (csr.columns >= num_columns)).any():
        raise BadRequest(f"{field}.sparse_col_indices", f"must be columns from 0 to {num_columns - 1}")
    flat_indices = np.repeat(np.arange(num_rows), np.diff(starts)) * num_columns + csr.columns
    if len(np.unique(flat_indices)) != len(flat_indices):
        raise BadRequest(f"{field}.sparse_col_indices", "must name a column of a row once")
    dense = np.zeros(shape, values.dtype)
    dense.flat[flat_indices] = values
    return dense
