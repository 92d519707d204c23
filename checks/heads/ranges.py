"""A range of a file's bytes, from the disk or from the Hub, within what a verdict may cost.

Knows not what the bytes mean.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Event

from checks.fetch.line import Address, Denied, Fault, Line, NoRanges, Signals, address_of
from checks.source.cache import Storage
from checks.source.file import File
from checks.source.hub import Hub
from checks.source.repository import Repository
from checks.source.tensors import Unread

COST = 400_000  # bytes: what is left of 2 MB when the small files have been read
REQUEST = 1000  # bytes of an answer besides what was asked for
TIMEOUT_S = 4.0
CONNECTIONS = 24

Part = Callable[[int, int], bytes]  # [start, stop) of a file


def parts_of(source: Repository, files: Sequence[File], hub: Hub) -> list[Part]:
    """Of files that lie in the source's folder or in the cache, or are on the Hub."""
    if source.folder is not None:
        return [partial(part_of, source.folder / file.name) for file in files]
    line, storage = Line(hub, Signals(Event()), TIMEOUT_S, CONNECTIONS), Storage(hub.storage(source.name))

    def one(file: File) -> Part:
        if place := storage.find(source.commit, file.name, file.etag, file.size):
            return partial(part_of, place)
        address = address_of(hub.endpoint, source.name, source.commit, file.name)
        return partial(asked, line, address, file.size)

    return list(map(one, files))


def part_of(path: Path, start: int, stop: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(stop - start)


def asked(line: Line, place: Address, size: int, start: int, stop: int) -> bytes:
    """Of the Hub, once: a start does not wait for what only makes its verdict better. Raises Unread."""
    try:
        return b"".join(line.part(place, start, stop, size))
    except NoRanges as reason:
        raise Unread("the server sends whole files where a part is asked for") from reason
    except (Fault, Denied) as reason:
        raise Unread(str(reason)) from reason
