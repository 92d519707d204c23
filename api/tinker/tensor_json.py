"""Tinker's tensors as JSON. Raises BadRequest."""

from typing import Any, Literal

import numpy as np
from msgspec import Struct

from api.tinker.tensors import DTYPES, INTEGER, Array, Csr, Tensor
from inference.errors import BadRequest

NAMES = {dtype: name for name, dtype in DTYPES.items()}


class TensorFields(Struct):
    """The sparse_ fields make it a CSR tensor, whose shape must be there."""

    data: list[int | float]
    dtype: Literal["float32", "int64"]
    shape: list[int] | None = None
    sparse_crow_indices: list[int] | None = None
    sparse_col_indices: list[int] | None = None


def read_tensor(fields: TensorFields, field: str) -> Tensor:
    csr = None
    if fields.sparse_crow_indices is not None or fields.sparse_col_indices is not None:
        csr = Csr(
            to_array(fields.sparse_crow_indices or [], INTEGER, f"{field}.sparse_crow_indices"),
            to_array(fields.sparse_col_indices or [], INTEGER, f"{field}.sparse_col_indices"),
        )
    return Tensor(to_array(fields.data, DTYPES[fields.dtype], f"{field}.data"), fields.shape, csr)


def to_array(values: list[int] | list[int | float], dtype: np.dtype[Any], field: str) -> Array:
    """Raises BadRequest for numbers that the dtype does not hold."""
    is_whole = dtype.kind == "f" or all(isinstance(value, int) for value in values)
    try:
        if is_whole:
            return np.array(values, dtype)
    except OverflowError:
        pass
    raise BadRequest(field, f"must have numbers of the type {dtype.name}")


def write_tensor_json(tensor: Tensor) -> dict[str, Any]:
    shape = [len(tensor.values)] if tensor.shape is None else list(tensor.shape)
    fields: dict[str, Any] = {
        "data": tensor.values.tolist(),
        "dtype": NAMES[tensor.values.dtype],
        "shape": shape,
    }
    if tensor.csr is None:
        return fields
    return fields | {
        "sparse_crow_indices": tensor.csr.row_starts.tolist(),
        "sparse_col_indices": tensor.csr.columns.tolist(),
    }
