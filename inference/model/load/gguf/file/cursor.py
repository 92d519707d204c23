"""A file that is read from its start, some bytes at a time, up to a limit. Knows how GGUF stores strings."""

import struct
from collections.abc import Callable
from typing import Any

READ_SIZE = 1 << 16  # bytes read at once
MAX_HEADER_BYTES = 1 << 26  # the largest vocabularies take a fourth of it
TRUNCATED = "a GGUF file that ends within its header"

ReadRange = Callable[[int, int], bytes]  # (start, stop) → the bytes [start, stop) of a file


class NotGguf(ValueError):
    """A file is not a valid GGUF file, or does not belong to the other shards; the message says why."""


class ReadLimitReached(Exception):
    """More bytes are needed than the limit allows."""


class Cursor:
    """A position in a file that is read sequentially, read_size bytes at a time, up to max_bytes."""

    def __init__(self, read_range: ReadRange, size: int, max_bytes: int, read_size: int) -> None:
        self.read_range, self.size, self.max_bytes, self.read_size = read_range, size, max_bytes, read_size
        self.data, self.position = bytearray(), 0

    def read(self, count: int) -> bytes:
        """The next `count` bytes. Raises ReadLimitReached, and NotGguf if the file ends before."""
        begin, end = self.position, self.position + count
        if end > self.size:
            raise NotGguf(TRUNCATED)
        if end > MAX_HEADER_BYTES:
            raise NotGguf(f"a GGUF file whose header is larger than {MAX_HEADER_BYTES >> 20} MB")
        while len(self.data) < end:
            have = len(self.data)
            if have >= self.max_bytes:
                raise ReadLimitReached
            self.data += self.read_range(have, min(have + self.read_size, self.max_bytes, self.size))
            if len(self.data) == have:
                raise NotGguf(TRUNCATED)
        self.position = end
        return bytes(self.data[begin:end])

    def number(self, struct_format: str) -> Any:
        return struct.unpack(struct_format, self.read(struct.calcsize(struct_format)))[0]

    def text(self) -> str:
        return self.read(self.number("<Q")).decode(errors="replace")


def check_count(count: int, limit: int, what: str) -> None:
    """Raise NotGguf for a file that states more than can be true: reading it would take minutes."""
    if count > limit:
        raise NotGguf(f"a GGUF file that states {count} {what}, {limit} at most")


def pack_string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()
