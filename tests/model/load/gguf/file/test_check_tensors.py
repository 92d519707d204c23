"""GGUF files that state what cannot be: each is refused in a sentence, soon, and without much memory."""

import struct
import tracemalloc
from collections.abc import Sequence

import gguf
import numpy as np
import pytest

from inference.model.load.gguf.file.check_tensors import UNREADABLE, check_tensors
from inference.model.load.gguf.file.cursor import NotGguf, pack_string
from inference.model.load.gguf.file.header import (
    GGML_TYPES,
    GgufHeader,
    GgufTensor,
    header_start,
    read_header,
)
from inference.model.load.gguf.file.setting import ARRAY, STRING, UINT32

UINT64, Q4_K, Q8_0, F32 = 10, 12, 8, 0
SIZE = 1 << 40  # of the files: longer than what they state


def read(start: bytes, size: int = SIZE) -> GgufHeader:
    """Read and check a file that begins so and has zeros after it."""
    header = read_header(lambda begin, end: start[begin:end].ljust(min(end, size) - begin, b"\0"), size, size)
    check_tensors(header)
    return header


def setting(name: str, value_type: int, value: bytes) -> bytes:
    return pack_string(name) + struct.pack("<I", value_type) + value


def table(tensors: Sequence[GgufTensor]) -> bytes:
    return header_start(len(tensors), 0) + b"".join(tensor.pack() for tensor in tensors)


HUGE = struct.pack("<Q", 1 << 60)
STARTS = {
    "tensors": (header_start(1 << 60, 0), "states 1152921504606846976 tensors, 131072 at most"),
    "settings": (header_start(0, 1 << 60), "states 1152921504606846976 settings, 131072 at most"),
    "name": (header_start(0, 1) + HUGE, "ends within its header"),
    "long name": (header_start(0, 1) + struct.pack("<Q", 1 << 36), "header is larger than 64 MB"),
    "overflowing name": (header_start(0, 1) + b"\xff" * 8, "ends within its header"),
    "text": (header_start(0, 1) + setting("a", STRING, HUGE), "ends within its header"),
    "numbers": (
        header_start(0, 1) + setting("a", ARRAY, struct.pack("<IQ", UINT32, 10**9)),
        "states 1000000000 values of a, 2097152 at most",
    ),
    "texts": (
        header_start(0, 1) + setting("a", ARRAY, struct.pack("<IQ", STRING, 10**9)),
        "states 1000000000 values of a, 2097152 at most",
    ),
    "settings that are zeros": (header_start(0, 9), "setting  is there twice"),
    "tensors that are zeros": (header_start(9, 0), "tensor '' is there twice"),
    "arrays": (
        header_start(0, 1) + setting("a", ARRAY, struct.pack("<IQ", ARRAY, 2)),
        "unknown value type 9",
    ),
    "value type": (header_start(0, 1) + setting("a", 99, b""), "unknown value type 99"),
    "dimensions": (
        header_start(1, 0) + pack_string("a") + struct.pack("<I", 1 << 31),
        "states 2147483648 dimensions of the tensor 'a', 4 at most",
    ),
    "layers": (
        header_start(0, 2)
        + setting("general.architecture", STRING, pack_string("llama"))
        + setting("llama.block_count", UINT64, HUGE),
        "a model with 1152921504606846976 layers; at most 4096",
    ),
}


@pytest.mark.parametrize("case", STARTS)
def test_an_impossible_header_is_refused_with_little_memory(case: str) -> None:
    start, expected = STARTS[case]
    tracemalloc.start()
    try:
        with pytest.raises(NotGguf, match=expected):
            read(start)
        assert tracemalloc.get_traced_memory()[1] < 1 << 28
    finally:
        tracemalloc.stop()


TABLES = {
    "type": ([GgufTensor("a", (32,), 99, 0)], "tensor 'a' has values of type 99, which cannot be read"),
    "integers": ([GgufTensor("a", (32,), 26, 0)], "type 26, which cannot be read"),
    "empty": ([GgufTensor("a", (32, 0), F32, 0)], r"tensor 'a' has no values: its shape is \(32, 0\)"),
    "blocks": ([GgufTensor("a", (100, 2), Q4_K, 0)], "rows of 100 values, no multiple of the 256"),
    "alignment": ([GgufTensor("a", (32,), F32, 3)], "begins at byte 3, no multiple of 32"),
    "twice": ([GgufTensor("a", (8,), F32, 0), GgufTensor("a", (8,), F32, 32)], "tensor 'a' is there twice"),
    "overlap": (
        [GgufTensor("b", (32,), F32, 32), GgufTensor("a", (32,), Q8_0, 0)],
        "tensors 'a' and 'b' overlap",
    ),
}


@pytest.mark.parametrize("case", TABLES)
def test_an_impossible_tensor_is_refused(case: str) -> None:
    tensors, expected = TABLES[case]
    with pytest.raises(NotGguf, match=expected):
        read(table(tensors))


def test_tensors_may_be_in_any_order_with_space_between_them() -> None:
    tensors = [
        GgufTensor("b", (32,), Q8_0, 128),
        GgufTensor("a", (8, 2), F32, 0),
        GgufTensor("c", (), F32, 64),
    ]
    assert read(table(tensors)).tensors == tensors


@pytest.mark.parametrize("ggml_type", sorted(GGML_TYPES.keys() - UNREADABLE))
def test_every_other_type_is_dequantized_by_gguf_py(ggml_type: int) -> None:
    values, width = GGML_TYPES[ggml_type]
    assert (
        gguf.dequantize(np.zeros((1, width), np.uint8), gguf.GGMLQuantizationType(ggml_type)).size == values
    )
