"""Reads the JSON of forward_backward and forward, as clients below 0.25 send it. Raises BadRequest."""

from typing import Any

from msgspec import Struct

from api.body.json_body import to_struct
from api.tinker.pass_body import Chunk, DatumBody, OtherChunk, PassBody
from api.tinker.sampling.parse import TEXT_CHUNK
from api.tinker.sampling.parse import Chunk as ChunkFields
from api.tinker.tensor_json import TensorFields, read_tensor, to_array
from api.tinker.tensors import TOKEN


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
