"""Tinker's protobuf message Tensor: arrays are little-endian bytes."""

from typing import Any

import numpy as np

from api.tinker.protobuf.wire import (
    NO_BYTES,
    Fields,
    broken_message,
    bytes_field,
    integer_field,
    integers,
    last_value,
    message_in,
    packed_field,
)
from api.tinker.tensors import FLOAT, INTEGER, Array, Csr, Tensor
from inference.errors import BadRequest

FLOAT32, INT64, INT32, BFLOAT16 = 1, 2, 3, 4  # the enum DType
DTYPES: dict[int, np.dtype[Any]] = {
    FLOAT32: FLOAT,
    INT64: INTEGER,
    INT32: np.dtype("<i4"),
    BFLOAT16: np.dtype("<u2"),
}
NUMBERS = {FLOAT: FLOAT32, INTEGER: INT64, np.dtype("<i4"): INT32}
DENSE, SPARSE, DTYPE, SHAPE = 1, 2, 3, 4
VALUES, ROW_STARTS, COLUMNS = 1, 2, 3


def read_array(data: memoryview, dtype: np.dtype[Any]) -> Array:
    """The numbers in the bytes. Raises BadRequest."""
    if len(data) % dtype.itemsize:
        raise broken_message(f"has an array of {len(data)} bytes, no multiple of {dtype.itemsize}")
    return np.frombuffer(data, dtype)


def read_tensor(fields: Fields, field: str) -> Tensor:
    """The tensor in the fields of a message; its values are float32 or int64. Raises BadRequest."""
    number = last_value(fields, DTYPE, int, 0)
    if number not in DTYPES:
        raise BadRequest(f"{field}.dtype", f"must be one of {', '.join(map(str, DTYPES))}", number)
    shape = integers(fields, SHAPE) if SHAPE in fields else None
    csr = None
    data = last_value(fields, DENSE, memoryview, NO_BYTES)
    if SPARSE in fields:
        sparse = message_in(fields, SPARSE)
        data, starts, columns = (
            last_value(sparse, each, memoryview, NO_BYTES) for each in (VALUES, ROW_STARTS, COLUMNS)
        )
        csr = Csr(read_array(starts, INTEGER), read_array(columns, INTEGER))
    values = read_array(data, DTYPES[number])
    if number == BFLOAT16:  # the upper half of a float32
        values = (values.astype("<u4") << 16).view(FLOAT)
    elif number == INT32:
        values = values.astype(INTEGER)
    return Tensor(values, shape, csr)


def write_tensor(tensor: Tensor) -> bytes:
    """The message of a tensor of float32, int64 or int32."""
    values = tensor.values.tobytes()
    if tensor.csr is None:
        content = bytes_field(DENSE, values)
    else:
        content = bytes_field(
            SPARSE,
            bytes_field(VALUES, values)
            + bytes_field(ROW_STARTS, tensor.csr.row_starts.astype(INTEGER).tobytes())
            + bytes_field(COLUMNS, tensor.csr.columns.astype(INTEGER).tobytes()),
        )
    shape = (len(tensor.values),) if tensor.shape is None else tensor.shape
    return content + integer_field(DTYPE, NUMBERS[tensor.values.dtype]) + packed_field(SHAPE, shape)


def write_batched(arrays: list[Array]) -> bytes:
    """The message BatchedTensor: an array for each datum. They differ in their first size alone."""
    offsets = np.cumsum([0, *(array.nbytes for array in arrays)], dtype=INTEGER)
    trailing_shape = arrays[0].shape[1:] if arrays else ()
    return (
        bytes_field(1, b"".join(array.tobytes() for array in arrays))
        + bytes_field(2, offsets.tobytes())
        + integer_field(3, NUMBERS[arrays[0].dtype] if arrays else FLOAT32)
        + (packed_field(4, trailing_shape) if trailing_shape else b"")
    )
