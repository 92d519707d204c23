"""A reader of GGUF files for transformers that reads an array at once.

gguf's own reads values one by one, each as arrays of numpy: seconds for a vocabulary.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gguf
import numpy as np
from gguf.constants import GGUFValueType

COUNT = struct.Struct("<Q")  # of values of an array, or of bytes of a string
# Bytes in the file, parts, which of them are values, types.
FieldParts = tuple[int, list[Any], list[int], list[GGUFValueType]]


class ArrayReader(gguf.GGUFReader):
    def _get_field_parts(self, orig_offs: int, raw_type: int) -> FieldParts:
        """As gguf's, but a value of an array is no array: a string is bytes, a number a tuple of one."""
        if raw_type != GGUFValueType.ARRAY:
            return super()._get_field_parts(orig_offs, raw_type)
        value_type = GGUFValueType(self._get(orig_offs, np.uint32)[0])
        offset = orig_offs + np.uint32().nbytes
        count = int(self._get(offset, np.uint64)[0])
        offset += COUNT.size
        values: list[Any]
        if value_type == GGUFValueType.STRING:
            values, offset = read_strings(self.data.data, offset, count)
        elif dtype := self.gguf_scalar_to_np.get(value_type):
            numbers = self._get(offset, dtype, count)
            values, offset = [(number,) for number in numbers.tolist()], offset + numbers.nbytes
        else:
            return super()._get_field_parts(orig_offs, raw_type)
        types = [GGUFValueType.ARRAY, value_type][: 2 if count else 1]
        return offset - orig_offs, values, [*range(count)], types


def read_strings(data: memoryview, offset: int, count: int) -> tuple[list[bytes], int]:
    """`count` strings from an offset on, as bytes, and where they end."""
    strings = []
    for _ in range(count):
        (length,) = COUNT.unpack_from(data, offset)
        offset += COUNT.size
        strings.append(bytes(data[offset : offset + length]))
        offset += length
    return strings, offset


@contextmanager
def arrays_read_at_once() -> Iterator[None]:
    """Within the context, transformers reads GGUF files by ArrayReader."""
    plain = gguf.GGUFReader
    gguf.GGUFReader = ArrayReader  # type: ignore[misc]
    try:
        yield
    finally:
        gguf.GGUFReader = plain  # type: ignore[misc]
