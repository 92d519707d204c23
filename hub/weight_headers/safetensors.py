"""Reads the headers of a model's safetensors files, from the disk or in ranges from the Hub.

Reads no weights, and at most MAX_BYTES from the Hub. hub/tensors.py parses the headers.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

from hub.client import Hub
from hub.repository import RepoFile, Repository
from hub.tensors import (
    LENGTH_BYTES,
    HeaderUnavailable,
    MalformedHeader,
    WeightHeader,
    WeightHeaders,
    parse_header,
    parse_length,
)
from hub.weight_headers.ranges import CONNECTIONS, MAX_BYTES, REQUEST_OVERHEAD, RangeReader, range_readers
from inference.finding import format_count


def with_headers(repository: Repository, hub: Hub) -> Repository:
    """The model with the headers of its safetensors files, or with the reason why they could not be read."""
    files = [file for file in repository.weight_files if file.name.endswith(".safetensors")]
    if not files or (repository.folder is not None and not all(file.is_local for file in files)):
        return repository
    try:
        headers = (read_from_disk if all(file.is_local for file in files) else read_from_hub_twice)(
            repository, files, hub
        )
    except HeaderUnavailable as reason:
        return replace(repository, headers=WeightHeaders(unavailable_reason=str(reason)))
    except MalformedHeader as reason:
        return replace(
            repository, headers=WeightHeaders(malformed_reason=str(reason), damaged_files=(reason.file,))
        )
    damaged_files = (
        file.name for file, header in zip(files, headers, strict=True) if file.size != header.end
    )
    tensors = {name: tensor for header in headers for name, tensor in header.tensors.items()}
    return replace(repository, headers=WeightHeaders(tensors, damaged_files=tuple(damaged_files)))


def read_from_disk(repository: Repository, files: Sequence[RepoFile], hub: Hub) -> list[WeightHeader]:
    return list(map(read_header, files, range_readers(repository, files, hub)))


def read_from_hub_twice(repository: Repository, files: Sequence[RepoFile], hub: Hub) -> list[WeightHeader]:
    """Read from the Hub, a second time if a header is malformed: it may have been damaged on the way."""
    try:
        return read_from_hub(repository, files, hub)
    except MalformedHeader:
        return read_from_hub(repository, files, hub)


def read_from_hub(repository: Repository, files: Sequence[RepoFile], hub: Hub) -> list[WeightHeader]:
    """Read the headers from the Hub: the first length, then, if they may fit MAX_BYTES, all in parallel."""
    readers = range_readers(repository, files, hub)
    lengths = [read_length(files[0], readers[0])]
    check_cost(len(files) * lengths[0], len(files))
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        lengths += threads.map(read_length, files[1:], readers[1:])
        check_cost(sum(lengths), len(files))
        return list(threads.map(read_header, files, readers, lengths))


def check_cost(num_bytes: int, num_files: int) -> None:
    """Raise HeaderUnavailable if headers of `num_bytes` in all exceed MAX_BYTES with their requests."""
    if num_bytes + num_files * 2 * REQUEST_OVERHEAD > MAX_BYTES:
        files = format_count(num_files, "file")
        raise HeaderUnavailable(f"the headers of {files} are too large to read before the download")


def read_length(file: RepoFile, reader: RangeReader) -> int:
    with name_file_in_errors(file):
        size = parse_length(reader(0, min(LENGTH_BYTES, file.size)))
        if LENGTH_BYTES + size > file.size:
            raise MalformedHeader(f"its header of {size} bytes is longer than the file")
        return size


def read_header(file: RepoFile, reader: RangeReader, size: int = 0) -> WeightHeader:
    """Read and parse the header of `size` bytes; 0: the size is not known yet."""
    size = size or read_length(file, reader)
    with name_file_in_errors(file):
        return parse_header(reader(LENGTH_BYTES, LENGTH_BYTES + size))


@contextmanager
def name_file_in_errors(file: RepoFile) -> Iterator[None]:
    """Attach the file's name to a MalformedHeader."""
    try:
        yield
    except MalformedHeader as reason:
        reason.file = file.name
        raise
