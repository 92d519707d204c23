"""Messages between the server and its trainer: a JSON header and arrays, framed, over any byte stream.

Arrays are safetensors bytes: nothing that is read here can run code.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from io import BufferedIOBase
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load, save

from tuning.trainer.datum import Datum

FRAME = struct.Struct("<QQ")  # bytes of the header, bytes of the arrays
SKIPPED_AT_ONCE = 1 << 16
NUM_COPIES = 3  # of the arrays, while a message is made: contiguous, safetensors' own, and its bytes
TOKENS, TARGETS, INPUT = "tokens", "targets", "input."  # the arrays of a datum

Arrays = Mapping[str, np.ndarray]


class TrainerMessage(NamedTuple):
    header: dict[str, Any]
    arrays: Arrays


def write_message(stream: BufferedIOBase, header: Mapping[str, Any], arrays: Arrays) -> None:
    """Raises MemoryError, before anything is written, for arrays that memory is too small for."""
    check_memory(arrays)
    head = json.dumps(header).encode()
    body = save({name: np.ascontiguousarray(array) for name, array in arrays.items()}) if arrays else b""
    stream.write(FRAME.pack(len(head), len(body)) + head)
    stream.write(body)
    stream.flush()


def check_memory(arrays: Arrays) -> None:
    """Raise MemoryError unless a message with the arrays can be made: safetensors ends the process then."""
    np.empty(NUM_COPIES * sum(array.nbytes for array in arrays.values()), np.uint8)


def read_message(stream: BufferedIOBase) -> TrainerMessage | None:
    """The next message; None: the stream has ended, perhaps within a message.

    Raises MemoryError for arrays that memory is too small for; what follows them can be read.
    """
    frame = stream.read(FRAME.size)
    if len(frame) < FRAME.size:
        return None
    head_size, body_size = FRAME.unpack(frame)
    head = stream.read(head_size)
    try:
        body = stream.read(body_size)
    except MemoryError:  # nothing of it was read
        skip(stream, body_size)
        raise
    if len(head) < head_size or len(body) < body_size:
        return None
    return TrainerMessage(json.loads(head), load(body) if body else {})


def skip(stream: BufferedIOBase, num_bytes: int) -> None:
    while num_bytes and (skipped := stream.read(min(num_bytes, SKIPPED_AT_ONCE))):
        num_bytes -= len(skipped)


def data_to_arrays(data: Sequence[Datum]) -> dict[str, np.ndarray]:
    """Arrays by the number of the datum and their name."""
    return {f"{index}.{name}": array for index, datum in enumerate(data) for name, array in fields_of(datum)}


def fields_of(datum: Datum) -> list[tuple[str, np.ndarray]]:
    inputs = [(INPUT + name, np.asarray(values, np.float32)) for name, values in datum.inputs.items()]
    ids = ((TOKENS, datum.token_ids), (TARGETS, datum.target_ids))
    return [*((name, np.asarray(values, np.int64)) for name, values in ids), *inputs]


def arrays_to_data(arrays: Arrays) -> list[Datum]:
    """The data that data_to_arrays took apart."""
    fields: dict[int, dict[str, np.ndarray]] = {}
    for key, array in arrays.items():
        index, _, name = key.partition(".")
        fields.setdefault(int(index), {})[name] = array
    return [to_datum(fields[index]) for index in range(len(fields))]


def to_datum(fields: Mapping[str, np.ndarray]) -> Datum:
    inputs = {name[len(INPUT) :]: array for name, array in fields.items() if name.startswith(INPUT)}
    return Datum(fields[TOKENS], fields[TARGETS], inputs)
