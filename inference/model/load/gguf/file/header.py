"""Reads the header of a GGUF file: metadata, then the tensor table. The tensor data follows it.

Knows the file layout (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md) and the size of each ggml
type; not where the bytes come from, nor what a model does with them. The vocabulary is part of the metadata
and most of its size. A remote file is read up to a byte limit; if the limit is in the vocabulary, the tensor
table stays unknown.
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from inference.model.load.gguf.file.cursor import (
    READ_SIZE,
    Cursor,
    NotGguf,
    ReadLimitReached,
    ReadRange,
    check_count,
    pack_string,
)
from inference.model.load.gguf.file.setting import (
    ALIGNMENT,
    DEFAULT_ALIGNMENT,
    STRING,
    read_numbers,
    read_setting,
    skip_array,
)

MAX_DIMENSIONS = 4  # of a tensor (ggml.h, GGML_MAX_DIMS)
MAX_ROWS = 1 << 17  # tensors, or settings
MAX_LIST = 1 << 16  # values of an array that is kept: one for each layer, for example
MAGIC = b"GGUF"
VERSIONS = (2, 3)
HEADER_BYTES = 24  # bytes before the metadata: magic, version, number of tensors, number of settings
VOCABULARY = "tokenizer."  # begins the names of arrays with a value for each token
TOKENS = "tokenizer.ggml.tokens"

# Bytes of a block, by its number of values and by ggml type (ggml, src/ggml.c, type_traits).
BLOCKS: Mapping[int, Mapping[int, int]] = {
    1: {0: 4, 1: 2, 24: 1, 25: 2, 26: 4, 27: 8, 28: 8, 30: 2},
    32: {2: 18, 3: 20, 6: 22, 7: 24, 8: 34, 9: 40, 20: 18, 39: 17},
    64: {40: 36},
    128: {41: 18},
    256: {
        10: 84,
        11: 110,
        12: 144,
        13: 176,
        14: 210,
        15: 292,
        16: 66,
        17: 74,
        18: 98,
        19: 50,
        21: 110,
        22: 82,
        23: 136,
        29: 56,
        34: 54,
        35: 66,
    },
}
# ggml type → (values per block, bytes per block)
GGML_TYPES = {
    ggml_type: (values, width) for values, types in BLOCKS.items() for ggml_type, width in types.items()
}


class GgufTensor(NamedTuple):
    """A row of the tensor table.

    shape      length of each dimension
    ggml_type  type of the values
    offset     where its data begins, in bytes from the start of the tensor data
    """

    name: str
    shape: tuple[int, ...]
    ggml_type: int
    offset: int

    @property
    def end(self) -> int:
        """Where its data ends, counted as `offset` is; equal to `offset` for an unknown ggml type."""
        values, width = GGML_TYPES.get(self.ggml_type, (1, 0))
        return self.offset + math.prod(self.shape) // values * width

    def pack(self) -> bytes:
        shape = struct.pack(f"<I{len(self.shape)}Q", len(self.shape), *self.shape)
        return pack_string(self.name) + shape + struct.pack("<IQ", self.ggml_type, self.offset)


@dataclass(slots=True)
class GgufHeader:
    """A header as far as it was read.

    num_tensors   number of tensors in the file
    metadata      key → the setting as encoded in the file, without arrays of strings and of the vocabulary
    texts         key → value of the string settings
    numbers       key → value of the number and bool settings
    lists         key → values of the arrays of numbers, without those of the vocabulary
    vocab_size    tokens in the vocabulary; 0 if the file does not say
    tensors       the tensor table; None if it was not reached
    table_offset  file offset of the tensor table, in bytes
    data_offset   file offset of the tensor data, in bytes
    """

    num_tensors: int
    metadata: dict[str, bytes] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)
    lists: dict[str, list[Any]] = field(default_factory=dict)
    vocab_size: int = 0
    tensors: list[GgufTensor] | None = None
    table_offset: int = 0
    data_offset: int = 0

    @property
    def architecture(self) -> str:
        return self.texts.get("general.architecture", "")

    def number(self, name: str, default: Any = None) -> Any:
        """A number or bool setting of its architecture."""
        return self.numbers.get(f"{self.architecture}.{name}", default)

    def has_tensor(self, text: str) -> bool:
        """Whether the name of a tensor has that text in it; False if the tensors are not known."""
        return any(text in tensor.name for tensor in self.tensors or ())

    @property
    def end(self) -> int:
        """The smallest valid size of the file in bytes; 0 if the tensor table was not reached."""
        return self.data_offset + max((tensor.end for tensor in self.tensors or ()), default=0)


def read_header(read_range: ReadRange, size: int, max_bytes: int, read_size: int = READ_SIZE) -> GgufHeader:
    """Read the header of a file of `size` bytes from its first `max_bytes` at most.

    If these do not reach the end of the tensor table, `tensors` is None. Raises NotGguf, and what read_range
    raises.
    """
    cursor = Cursor(read_range, size, max_bytes, read_size)
    if cursor.read(len(MAGIC)) != MAGIC:
        raise NotGguf("a file that does not begin with the magic of GGUF")
    version, num_tensors, num_settings = (cursor.number(fmt) for fmt in ("<I", "<Q", "<Q"))
    check_version(version)
    check_count(num_tensors, MAX_ROWS, "tensors")
    check_count(num_settings, MAX_ROWS, "settings")
    header, names = GgufHeader(num_tensors), set[str]()
    try:
        for _ in range(num_settings):
            add_setting(cursor, header, names)
        header.table_offset = cursor.position
        header.tensors = [read_tensor(cursor) for _ in range(num_tensors)]
        header.data_offset = align_offset(cursor.position, header)
    except ReadLimitReached:
        header.tensors = None
    return header


def add_setting(cursor: Cursor, header: GgufHeader, names: set[str]) -> None:
    """Add the next setting to the header, and its name to `names`, those before it."""
    begin = cursor.position
    name, value = read_setting(cursor, partial(read_array, header))
    if name in names:
        raise NotGguf(f"a GGUF file whose setting {name} is there twice")
    names.add(name)
    if value is None:
        return
    if isinstance(value, str):
        header.texts[name] = value
    elif isinstance(value, list):
        header.lists[name] = value
    else:
        header.numbers[name] = value
    header.metadata[name] = bytes(cursor.data[begin : cursor.position])


def read_array(
    header: GgufHeader, cursor: Cursor, name: str, value_type: int, count: int
) -> list[Any] | None:
    """The values; None for strings, those of the vocabulary, and more than MAX_LIST: they are skipped."""
    if name == TOKENS:
        header.vocab_size = count
    if value_type != STRING and count <= MAX_LIST and not name.startswith(VOCABULARY):
        return read_numbers(cursor, value_type, count)
    skip_array(cursor, value_type, count)
    return None


def check_version(version: int) -> None:
    """Raise NotGguf for a version that cannot be read; a big-endian file's version has its bytes reversed."""
    if version in VERSIONS:
        return
    if int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS:
        raise NotGguf("a big-endian GGUF file; only little-endian files can be read")
    raise NotGguf(f"a GGUF file of version {version}; versions that can be read: 2 and 3")


def read_tensor(cursor: Cursor) -> GgufTensor:
    name, dimensions = cursor.text(), cursor.number("<I")
    check_count(dimensions, MAX_DIMENSIONS, f"dimensions of the tensor {name!r}")
    shape = struct.unpack(f"<{dimensions}Q", cursor.read(8 * dimensions))
    return GgufTensor(name, shape, cursor.number("<I"), cursor.number("<Q"))


def align_offset(offset: int, header: GgufHeader) -> int:
    """`offset` rounded up to the alignment of the file's tensor data."""
    step: int = header.numbers.get(ALIGNMENT, DEFAULT_ALIGNMENT)
    return -(-offset // step) * step


def header_start(num_tensors: int, num_settings: int) -> bytes:
    """The first HEADER_BYTES bytes of a file with these numbers of tensors and settings."""
    return MAGIC + struct.pack("<IQQ", VERSIONS[-1], num_tensors, num_settings)
