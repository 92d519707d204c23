"""Decodes the long strings of a JSON body a slice at a time, and joins the slices one by one.

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
# The first byte of a character in UTF-8 is less than this: the widest character of a text with its memory.
MAX_CHARS = ((0x80, 0x7F), (0xC4, 0xFF), (0xF0, 0xFFFF))

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


class TextSlice(NamedTuple):
    """max_char: the widest character that takes as much memory as the widest one of the text"""

    text: str
    max_char: int


class LongStrings:
    """The runs of one body. without_runs: the body with markers in their place

    Raises UnicodeDecodeError for bytes that are not UTF-8.
    """

    def __init__(self, data: bytes, runs: Sequence[ByteRun]) -> None:
        self._token = secrets.token_hex(TOKEN_BYTES)
        self._runs: list[list[TextSlice]] = []
        sections, end = [], 0
        for run in runs:
            if run.stop - run.start < MIN_RUN_BYTES:
                continue
            start, stop = char_start(data, run.start), char_start(data, run.stop)
            sections += [data[end:start], f"{self._token}{len(self._runs):08}".encode()]
            self._runs.append(list(decode_slices(data, start, stop)))
            end = stop
        self.without_runs = b"".join([*sections, data[end:]]) if sections else data

    def put_back(self, value: Any) -> bool:
        """Put the texts into the strings of the parsed `value`.

        Returns whether all found their string: a run in a key of an object does not.
        """
        num_missing, containers = len(self._runs), [value]
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
        slices = [*text_slices(between)]
        for index, between in zip(rest[::2], rest[1::2], strict=True):
            slices += [*self._runs[int(index)], *text_slices(between)]
        return join(slices), len(rest) // 2


def items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def join(slices: Sequence[TextSlice]) -> str:
    """The text of all slices. No call copies more than one, or converts it to the width of the others."""
    text: str = new_text(sum(len(each.text) for each in slices), max(each.max_char for each in slices))
    start = 0
    for each in slices:
        start += copy_characters(id(text), start, each.text, 0, len(each.text))
    return text


def text_slices(text: str) -> Iterator[TextSlice]:
    data = text.encode()
    return decode_slices(data, 0, len(data))


def decode_slices(data: bytes, start: int, stop: int) -> Iterator[TextSlice]:
    while start < stop:
        end = min(stop, char_start(data, start + DECODED_BYTES))
        section = data[start:end]
        yield TextSlice(section.decode(), max_char(section))
        start = end


def max_char(data: bytes) -> int:
    first_byte = int(np.frombuffer(data, np.uint8).max())
    return next((char for limit, char in MAX_CHARS if first_byte < limit), sys.maxunicode)


def char_start(data: bytes, index: int) -> int:
    """The first index from `index` on at which a character begins or the data ends, if it is UTF-8."""
    for start in range(index, min(index + CHAR_BYTES, len(data) + 1)):
        if start == len(data) or data[start] & 0xC0 != 0x80:
            return start
    return min(index, len(data))
