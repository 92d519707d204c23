"""Reads Tinker's protobuf message ForwardBackwardRequest, and writes ForwardBackwardOutput."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import groupby

from api.tinker.pass_body import Chunk, DatumBody, OtherChunk, PassBody
from api.tinker.protobuf.tensor import read_array, read_tensor, write_batched
from api.tinker.protobuf.wire import (
    MAX_FIELDS,
    NO_BYTES,
    Fields,
    broken_message,
    bytes_field,
    double_field,
    integer_field,
    iter_fields,
    last_value,
    map_entries,
    map_field,
    message_in,
    messages,
    read_fields,
    signed,
    text,
)
from api.tinker.tensors import TOKEN, Array
from inference.errors import BadRequest

MODEL_ID, SEQ_ID, DATA, LOSS_FN, CONFIG, FORWARD_ONLY, CONFIG_V2 = range(1, 8)
MODEL_INPUT, LOSS_FN_INPUTS = 1, 2
ENCODED_TEXT = 1
OTHER_CHUNKS = {2: "image", 3: "dmel"}
NUMBER, TEXT = 1, 2  # of a value in CONFIG_V2
RECORD = "ArrayRecord"


def read_ids(data: bytes) -> tuple[str, int]:
    """The fields model_id and seq_id, also of a message that is broken after them. Raises BadRequest."""
    fields = Fields([MAX_FIELDS])
    with suppress(BadRequest):
        for number, value in iter_fields(data, fields.budget):
            fields.setdefault(number, []).append(value)
    if MODEL_ID not in fields:
        raise broken_message("has no model_id at its beginning")
    return text(fields, MODEL_ID), signed(last_value(fields, SEQ_ID, int, 0))


def read_pass(data: bytes) -> PassBody:
    """The request without its ids. Raises BadRequest."""
    fields = read_fields(data)
    return PassBody(
        data=[read_datum(message, f"data[{i}]", fields) for i, message in enumerate(messages(fields, DATA))],
        loss_fn=text(fields, LOSS_FN),
        loss_fn_config=read_config(fields),
        forward_only=bool(last_value(fields, FORWARD_ONLY, int, 0)),
    )


def read_config(fields: Fields) -> dict[str, float | str]:
    config: dict[str, float | str] = {
        key: last_value(entry, 2, float, 0.0) for key, entry in map_entries(fields, CONFIG)
    }
    for key, entry in map_entries(fields, CONFIG_V2):
        value = message_in(entry, 2)
        config[key] = text(value, TEXT) if TEXT in value else last_value(value, NUMBER, float, 0.0)
    return config


def read_datum(message: memoryview, field: str, outer: Fields) -> DatumBody:
    fields = read_fields(message, outer)
    return DatumBody(
        model_input=[read_chunk(chunk, fields) for chunk in messages(fields, MODEL_INPUT)],
        loss_fn_inputs={
            name: read_tensor(message_in(entry, 2), f"{field}.loss_fn_inputs.{name}")
            for name, entry in map_entries(fields, LOSS_FN_INPUTS)
        },
    )


def read_chunk(message: memoryview, outer: Fields) -> Chunk:
    fields = read_fields(message, outer)
    for number, kind in OTHER_CHUNKS.items():
        if number in fields:
            return OtherChunk(kind)
    if ENCODED_TEXT not in fields:
        raise broken_message("has a chunk that is neither text nor an image")
    return read_array(last_value(message_in(fields, ENCODED_TEXT), 1, memoryview, NO_BYTES), TOKEN)


def write_output(logprobs: Sequence[Array], metrics: Mapping[str, float]) -> bytes:
    """The result of a pass. logprobs: of each datum, float32 (N,) or (N, K)."""
    by_shape = groupby(logprobs, lambda array: array.shape[1:])
    records = b"".join(bytes_field(2, write_record(list(arrays))) for _, arrays in by_shape)
    values = {name: double_field(2, value) for name, value in metrics.items()}
    return bytes_field(1, RECORD.encode()) + records + map_field(3, values)


def write_record(arrays: list[Array]) -> bytes:
    """The message ArrayRecord of data whose arrays differ in their first size alone."""
    fields = map_field(2, {"logprobs": bytes_field(2, write_batched(arrays))})
    return fields + integer_field(3, len(arrays))
