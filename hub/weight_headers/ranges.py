"""Reads a range of a file's bytes, from the disk or from the Hub."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Event

from hub.cache import ModelCache
from hub.client import Hub
from hub.download.http_range import (
    FileAddress,
    RangeClient,
    RangesUnsupported,
    RequestDenied,
    SharedState,
    TransientError,
    address_of,
)
from hub.repository import RepoFile, Repository
from hub.tensors import HeaderUnavailable

MAX_BYTES = 400_000  # of all headers: the 2 MB of the checks, less listing and small files
REQUEST_OVERHEAD = 1000  # bytes of a response in addition to the requested range
TIMEOUT_S = 4.0
CONNECTIONS = 24

RangeReader = Callable[[int, int], bytes]  # (start, stop) -> bytes [start, stop) of a file


def range_readers(repository: Repository, files: Sequence[RepoFile], hub: Hub) -> list[RangeReader]:
    """A range reader per file, for files in the source's folder, in the cache or on the Hub."""
    if repository.folder is not None:
        return [partial(read_file_range, repository.folder / file.name) for file in files]
    client = RangeClient(hub, SharedState(Event()), TIMEOUT_S, CONNECTIONS)
    cache = ModelCache(hub.model_folder(repository.name))

    def make_reader(file: RepoFile) -> RangeReader:
        if path := cache.find_file(repository.commit, file.name, file.etag, file.size):
            return partial(read_file_range, path)
        address = address_of(hub.endpoint, repository.name, repository.commit, file.name)
        return partial(read_hub_range, client, address, file.size)

    return list(map(make_reader, files))


def read_file_range(path: Path, start: int, stop: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(stop - start)


def read_hub_range(client: RangeClient, address: FileAddress, size: int, start: int, stop: int) -> bytes:
    """Read a range from the Hub. Without retries, because the checks work without headers.

    Raises HeaderUnavailable.
    """
    try:
        return b"".join(client.read_range(address, start, stop, size))
    except RangesUnsupported as reason:
        raise HeaderUnavailable("the server does not support range requests") from reason
    except (TransientError, RequestDenied) as reason:
        raise HeaderUnavailable(str(reason)) from reason
