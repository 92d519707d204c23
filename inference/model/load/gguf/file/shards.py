"""Presents a model in several GGUF files to transformers as one file, without settings that it fails at.

While active, np.memmap of the first file returns a header that lists the tensors of all files, followed by
the bytes of each file in order. Only that header is copied.
"""

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from inference.model.load.gguf.file.check_tensors import check_tensors
from inference.model.load.gguf.file.cursor import READ_SIZE, NotGguf
from inference.model.load.gguf.file.header import (
    HEADER_BYTES,
    GgufHeader,
    align_offset,
    header_start,
    read_header,
)
from inference.model.load.gguf.file.setting import SPLIT_COUNT, SPLIT_NO, SPLIT_TENSORS

GGUF = ".gguf"
SHARD_NAME = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")  # shards count from 1

# transformers fails at the scaling of gpt-oss; rope.py reads it. Under the other name it passes it over.
MISREAD, UNREAD = b"gpt-oss.rope.scaling.", b"gpt-oss.rope.SCALING."

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class MergedFile(np.ndarray):
    """The merged header's bytes. A slice that starts after them is read from the file at that offset."""

    files: Sequence[Bytes]
    offsets: Sequence[int]  # of each file, after the merged header

    def __getitem__(self, key: Any) -> Any:
        """An item of the header, or a slice; a slice lies within the header or within one file."""
        if not isinstance(key, slice):
            return self.view(np.ndarray)[key]
        start, stop = key.start or 0, key.stop
        assert stop is not None and 0 <= start <= stop, "a slice of the merged file has an end"
        if start < len(self):
            assert stop <= len(self), "a slice does not cross the end of the merged header"
            return self.view(np.ndarray)[key]
        number = bisect_right(self.offsets, start) - 1
        file, offset = self.files[number], self.offsets[number]
        assert stop - offset <= len(file), "a slice does not cross the end of a file"
        return file[start - offset : stop - offset]


@contextmanager
def open_as_one_file(first: Path) -> Iterator[None]:
    """Within the context, transformers finds the tensors of all shards in the file `first`.

    Raises NotGguf if the shards do not form one model, or if transformers did not map the file by np.memmap.
    """
    files = shard_paths(first)
    if len(files) == 1 and not has_misread_settings(files[0]):
        yield
        return
    view, plain, opened = merge_files(files), np.memmap, []

    def memmap_merged(name: Any, *args: Any, **options: Any) -> Any:
        if not isinstance(name, str | Path) or not first.samefile(name):
            return plain(name, *args, **options)
        opened.append(name)
        return view

    np.memmap = memmap_merged  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        np.memmap = plain  # type: ignore[misc]
    if not opened:
        raise NotGguf(
            f"{first.name}, a model in several files, which this version of transformers does not read"
        )


def has_misread_settings(file: Path) -> bool:
    with file.open("rb") as opened:
        return MISREAD in opened.read(READ_SIZE)


def merge_files(files: Sequence[Path]) -> MergedFile:
    """Map the files and build the merged header. Raises NotGguf, and OSError for a missing file."""
    mapped = [np.memmap(file, dtype=np.uint8, mode="r") for file in files]
    headers = [read_header(partial(read_bytes, bytes_), len(bytes_), len(bytes_)) for bytes_ in mapped]
    merge_headers([file.name for file in files], [len(bytes_) for bytes_ in mapped], headers)
    metadata = merged_metadata(mapped[0], headers)
    table_size = sum(len(tensor.pack()) for header in headers for tensor in header.tensors or ())
    data_offset = align_offset(len(metadata) + table_size, headers[0])
    offsets = list(
        accumulate((align_offset(len(bytes_), headers[0]) for bytes_ in mapped), initial=data_offset)
    )
    table = [
        tensor._replace(offset=offset - data_offset + header.data_offset + tensor.offset).pack()
        for header, offset in zip(headers, offsets, strict=False)
        for tensor in header.tensors or ()
    ]
    header_bytes = (metadata + b"".join(table)).ljust(data_offset, b"\0")
    view = np.frombuffer(header_bytes, dtype=np.uint8).view(MergedFile)
    view.files, view.offsets = mapped, offsets[:-1]
    return view


def merged_metadata(first: Bytes, headers: Sequence[GgufHeader]) -> bytes:
    """The merged header up to its tensor table: the first file's metadata, the number of all tensors."""
    metadata = first[: headers[0].table_offset].tobytes().replace(MISREAD, UNREAD)
    (num_settings,) = struct.unpack_from("<Q", metadata, HEADER_BYTES - 8)
    num_tensors = sum(header.num_tensors for header in headers)
    return header_start(num_tensors, num_settings) + metadata[HEADER_BYTES:]


def read_bytes(file: Bytes, start: int, stop: int) -> bytes:
    return file[start:stop].tobytes()


def shard_names(name: str) -> tuple[str, ...]:
    """All shards of the model that file `name` is a shard of, in order; only `name` if it is no shard."""
    stem, count = parse_shard_name(name)
    return tuple(shard_name(stem, number, count) for number in range(1, count + 1)) if count else (name,)


def first_shard(name: str) -> str:
    stem, count = parse_shard_name(name)
    return shard_name(stem, 1, count) if count else name


def parse_shard_name(name: str) -> tuple[str, int]:
    """The common beginning of the shards' names and the number of shards; 0 if `name` is no shard."""
    match = SHARD_NAME.fullmatch(name)
    stem, number, count = match.groups() if match else (name, "0", "0")
    return stem, int(count) if 0 < int(number) <= int(count) else 0


def shard_name(stem: str, number: int, count: int) -> str:
    return f"{stem}-{number:05}-of-{count:05}.gguf"


def shard_paths(file: Path) -> list[Path]:
    return [file.with_name(name) for name in shard_names(file.name)]


def read_files(source: Path) -> list[tuple[GgufHeader, Bytes]]:
    """The header of each shard, and the mapped file. Raises NotGguf, and OSError for a missing file."""
    paths = shard_paths(source)
    files = [np.memmap(path, dtype=np.uint8, mode="c") for path in paths]  # writable: torch asks for it
    headers = [read_header(partial(read_bytes, file), len(file), len(file)) for file in files]
    return list(zip(headers, files, strict=True))


def merged_header(source: Path, files: Sequence[tuple[GgufHeader, Bytes]]) -> GgufHeader:
    names, headers = shard_names(source.name), [header for header, _ in files]
    return merge_headers(names, [len(file) for _, file in files], headers)


def merge_headers(names: Sequence[str], sizes: Sequence[int], headers: Sequence[GgufHeader]) -> GgufHeader:
    """The first file's header with the tensors of all files; they are None if any file's are.

    Raises NotGguf for a file that cannot be read, belongs to another model or is truncated.
    """
    for number, (name, size, header) in enumerate(zip(names, sizes, headers, strict=True)):
        check_tensors(header)
        if why := shard_error(header, size, number, len(names)):
            raise NotGguf(f"{name}, which {why}")
    count = sum(header.num_tensors for header in headers)
    if not count:
        raise NotGguf(f"{names[0]}, which has no tensors: it is a vocabulary without a model")
    if wrong := {header.numbers.get(SPLIT_TENSORS, count) for header in headers} - {count}:
        files = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        raise NotGguf(f"{files}, which have {count} tensors, but their model has {wrong.pop()}")
    tables = [header.tensors for header in headers]
    known = None if None in tables else [tensor for table in tables for tensor in table or ()]
    return replace(headers[0], num_tensors=count, tensors=known)


def shard_error(header: GgufHeader, size: int, number: int, count: int) -> str:
    """Why a file is not shard `number` (from 0) of `count`, or is truncated; empty if it is valid."""
    if size < header.end:
        return f"is cut off: {size} bytes instead of {header.end}"
    position = shard_position(header)
    if position is None or position == (number, count):
        return ""
    own_number, own_count = position
    own_part = f"part {own_number + 1} of {own_count}" if own_count > 1 else "a whole model"
    return f"says that it is {own_part}"


def shard_position(header: GgufHeader) -> tuple[int, int] | None:
    """(number from 0, number of shards) in the file's own settings; None if these were not reached."""
    if SPLIT_COUNT in header.numbers:
        return header.numbers.get(SPLIT_NO, 0), header.numbers[SPLIT_COUNT] or 1  # 0: merged again
    return None if header.tensors is None else (0, 1)
