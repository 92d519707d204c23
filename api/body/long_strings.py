"""Decodes the long strings of a JSON body a slice at a time, into texts whose memory is there before.

One call that decodes or joins 30 MB of text keeps all threads waiting for up to 70 ms. While the JSON is
parsed, a marker stands for each run of a string's bytes. Knows where runs are, not how JSON is parsed.
"""

import ctypes
import re
import secrets
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

MIN_RUN_BYTES = 1 << 19  # a shorter run is parsed with the rest
DECODED_BYTES = 1 << 16  # at a time
TOKEN_BYTES = 16  # of a marker: no client can guess it
CHAR_BYTES = 4  # at most, of a character in UTF-8
# The bytes of a text in UTF-8 are less than this: the widest character of a text with its memory.
MAX_CHARS = ((0x80, 0x7F), (0xC4, 0xFF), (0xF0, 0xFFFF))
LAST_CONTINUATION = -0x41  # 0xBF as a signed byte; a byte above it is the first one of a character
HEADER_BYTES = sys.getsizeof("é") - 2  # of a text in memory, at most; its characters, and a zero, follow

# Functions of CPython's C API, docs.python.org/3/c-api/unicode.html. The first creates a text of a size and a
# widest character; the other one copies characters into a text that nobody else refers to: to, to_start,
# from, from_start, how_many.
new_text = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_ssize_t, ctypes.c_uint32)(
    ("PyUnicode_New", ctypes.pythonapi)
)
copy_characters = ctypes.PYFUNCTYPE(
    ctypes.c_ssize_t,
    ctypes.c_void_p,
    ctypes.c_ssize_t,
    ctypes.py_object,
    ctypes.c_ssize_t,
    ctypes.c_ssize_t,
)(("PyUnicode_CopyCharacters", ctypes.pythonapi))


class ByteRun(NamedTuple):
    """Bytes within one string: without escapes, quotes and control characters."""

    start: int
    stop: int


class EncodedText(NamedTuple):
    """A text in UTF-8: data[start:stop].

    max_char: the widest character that takes as much memory as its widest one
    """

    data: bytes
    start: int
    stop: int
    num_chars: int
    max_char: int


class LongStrings:
    """The runs of one body. without_runs: the body with markers in their place"""

    def __init__(self, data: bytes, runs: Sequence[ByteRun]) -> None:
        self._token = secrets.token_hex(TOKEN_BYTES)
        self._texts: list[EncodedText] = []
        sections, end = [], 0
        for run in runs:
            if run.stop - run.start < MIN_RUN_BYTES:
                continue
            start, stop = char_start(data, run.start), char_start(data, run.stop)
            sections += [data[end:start], f"{self._token}{len(self._texts):08}".encode()]
            self._texts.append(measure(data, start, stop))
            end = stop
        self.without_runs = b"".join([*sections, data[end:]]) if sections else data

    def put_back(self, value: Any) -> bool:
        """Put the texts into the strings of the parsed `value`.

        Returns whether all found their string: a run in a key of an object does not. Raises
        UnicodeDecodeError for bytes that are not UTF-8.
        """
        num_missing, containers = len(self._texts), [value]
        while num_missing and containers:
            container = containers.pop()
            for key, child in list(items(container)):
                if isinstance(child, str) and self._token in child:
                    container[key], num_runs = self._with_texts(child)
                    num_missing -= num_runs
                elif isinstance(child, dict | list):
                    containers.append(child)
        return not num_missing

    def _with_texts(self, text: str) -> tuple[str, int]:
        """The text with its runs, and their number."""
        between, *rest = re.split(rf"{self._token}(\d{{8}})", text)
        texts = [encoded(between)]
        for index, between in zip(rest[::2], rest[1::2], strict=True):
            texts += [self._texts[int(index)], encoded(between)]
        return join(texts), len(rest) // 2


def items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def encoded(text: str) -> EncodedText:
    data = text.encode()
    return measure(data, 0, len(data))


def measure(data: bytes, start: int, stop: int) -> EncodedText:
    """The text with its size. Python's lock is free meanwhile, but between two slices."""
    num_chars, largest_byte = 0, 0
    for slice_start in range(start, stop, DECODED_BYTES):
        section = np.frombuffer(data, np.uint8, min(DECODED_BYTES, stop - slice_start), slice_start)
        num_chars += int(np.count_nonzero(section.view(np.int8) > LAST_CONTINUATION))
        largest_byte = max(largest_byte, int(section.max()))
    max_char = next((char for limit, char in MAX_CHARS if largest_byte < limit), sys.maxunicode)
    return EncodedText(data, start, stop, num_chars, max_char)


def join(texts: Sequence[EncodedText]) -> str:
    """All texts in one. No call decodes or copies more than a slice, or converts it to a wider one."""
    text: str = new_text(sum(each.num_chars for each in texts), max(each.max_char for each in texts))
    prefault(text)
    start = 0
    for each in texts:
        for decoded in decode_slices(each.data, each.start, each.stop):
            start += copy_characters(id(text), start, decoded, 0, len(decoded))
    return text


def prefault(text: str) -> None:
    """Let the system provide the memory of a new text, without Python's lock.

    Else it clears each page when the first character is copied there, which takes 40 ms for 30 MB of ASCII
    with some emoji, and keeps all other threads waiting.
    """
    ctypes.memset(id(text) + HEADER_BYTES, 0, max(0, sys.getsizeof(text) - HEADER_BYTES))


def decode_slices(data: bytes, start: int, stop: int) -> Iterator[str]:
    while start < stop:
        end = min(stop, char_start(data, start + DECODED_BYTES))
        yield data[start:end].decode()
        start = end


def char_start(data: bytes, index: int) -> int:
    """The first index from `index` on at which a character begins or the data ends, if it is UTF-8."""
    for start in range(index, min(index + CHAR_BYTES, len(data) + 1)):
        if start == len(data) or data[start] & 0xC0 != 0x80:
            return start
    return min(index, len(data))
