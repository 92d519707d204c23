"""Reads the JSON of forward_backward and forward, as clients below 0.25 send it. Raises BadRequest."""

from typing import Any, Literal

import numpy as np
from msgspec import Struct

from api.json_body import to_struct
from api.tinker.pass_body import Chunk, DatumBody, OtherChunk, PassBody
from api.tinker.sampling import TEXT_CHUNK
from api.tinker.sampling import Chunk as ChunkFields
from api.tinker.tensors import DTYPES, INTEGER, Array, Csr, Tensor
from inference.errors import BadRequest

TOKEN = np.dtype("<i4")


class TensorFields(Struct):
    """The sparse_ fields make it a CSR tensor, whose shape must be there."""

    data: list[int | float]
    dtype: Literal["float32", "int64"]
    shape: list[int] | None = None
    sparse_crow_indices: list[int] | None = None
    sparse_col_indices: list[int] | None = None


class ModelInputFields(Struct):
    chunks: list[ChunkFields]


class DatumFields(Struct):
    model_input: ModelInputFields
    loss_fn_inputs: dict[str, TensorFields]


class PassFields(Struct):
    data: list[DatumFields]
    loss_fn: str
    loss_fn_config: dict[str, float | str] | None = None


class ForwardBackwardBody(Struct):
    forward_backward_input: PassFields


class ForwardBody(Struct):
    forward_input: PassFields


def read_forward_backward(value: Any) -> PassBody:
    return read_pass(to_struct(value, ForwardBackwardBody).forward_backward_input, forward_only=False)


def read_forward(value: Any) -> PassBody:
    return read_pass(to_struct(value, ForwardBody).forward_input, forward_only=True)


def read_pass(fields: PassFields, *, forward_only: bool) -> PassBody:
    return PassBody(
        data=[read_datum(datum, f"data[{i}]") for i, datum in enumerate(fields.data)],
        loss_fn=fields.loss_fn,
        loss_fn_config=fields.loss_fn_config or {},
        forward_only=forward_only,
    )


def read_datum(fields: DatumFields, field: str) -> DatumBody:
    return DatumBody(
        model_input=[read_chunk(chunk, f"{field}.model_input") for chunk in fields.model_input.chunks],
        loss_fn_inputs={
            name: read_tensor(tensor, f"{field}.loss_fn_inputs.{name}")
            for name, tensor in fields.loss_fn_inputs.items()
        },
    )


def read_chunk(fields: ChunkFields, field: str) -> Chunk:
    if fields.type != TEXT_CHUNK:
        return OtherChunk(fields.type)
    return to_array(fields.tokens, TOKEN, field)


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
