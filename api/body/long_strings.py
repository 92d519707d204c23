"""Decodes the long strings of a JSON body a slice at a time.

One call that decodes 30 MB of text keeps all threads waiting for up to 40 ms. While the JSON is parsed, a
marker stands for each run of a string's bytes. Knows where runs are, not how JSON is parsed.
"""

import re
import secrets
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

MIN_RUN_BYTES = 1 << 19  # a shorter run is parsed with the rest
DECODED_BYTES = 1 << 18  # at a time
TOKEN_BYTES = 16  # of a marker: no client can guess it
CHAR_BYTES = 4  # at most, of a character in UTF-8


class ByteRun(NamedTuple):
    """Bytes within one string: without escapes, quotes and control characters."""

    start: int
    stop: int


class LongStrings:
    """The runs of one body. without_runs: the body with markers in their place

    Raises UnicodeDecodeError for bytes that are not UTF-8.
    """

    def __init__(self, data: bytes, runs: Sequence[ByteRun]) -> None:
        self._token = secrets.token_hex(TOKEN_BYTES)
        self._texts: list[list[str]] = []  # of each run, in slices
        sections, end = [], 0
        for run in runs:
            if run.stop - run.start < MIN_RUN_BYTES:
                continue
            start, stop = char_start(data, run.start), char_start(data, run.stop)
            sections += [data[end:start], f"{self._token}{len(self._texts):08}".encode()]
            self._texts.append(list(decode_slices(data, start, stop)))
            end = stop
        self.without_runs = b"".join([*sections, data[end:]]) if sections else data

    def put_back(self, value: Any) -> bool:
        """Put the texts into the strings of the parsed `value`.

        Returns whether all found their string: a run in a key of an object does not.
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
        sections = [between]
        for index, between in zip(rest[::2], rest[1::2], strict=True):
            sections += [*self._texts[int(index)], between]
        return "".join(sections), len(rest) // 2


def items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def decode_slices(data: bytes, start: int, stop: int) -> Iterator[str]:
    while start < stop:
        end = min(stop, char_start(data, start + DECODED_BYTES))
        yield data[start:end].decode()
        start = end


def char_start(data: bytes, index: int) -> int:
    """The first index from `index` on at which a character begins, if the data is UTF-8."""
    for start in range(index, min(index + CHAR_BYTES, len(data))):
        if data[start] & 0xC0 != 0x80:
            return start
    return min(index, len(data))
