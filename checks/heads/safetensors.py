"""The headers of a model's safetensors, read from the disk, or from the Hub in ranges.

What they hold is tensors.py's. Not a byte of a weight is read, nor more of headers than a verdict may cost.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

from checks.heads.ranges import CONNECTIONS, COST, REQUEST, Part, parts_of
from checks.source.file import File
from checks.source.hub import Hub
from checks.source.repository import Repository
from checks.source.tensors import LENGTH, Header, Headers, Malformed, Unread, length, parsed


def with_headers(source: Repository, hub: Hub) -> Repository:
    """The model with what its files hold; what cannot be read is told of."""
    files = [file for file in source.held if file.name.endswith(".safetensors")]
    if not files or (source.folder is not None and not all(file.here for file in files)):
        return source
    try:
        found = (on_disk if all(file.here for file in files) else sure)(source, files, hub)
    except Unread as reason:
        return replace(source, headers=Headers(unread=str(reason)))
    except Malformed as reason:
        return replace(source, headers=Headers(malformed=str(reason), damaged=(reason.file,)))
    damaged = (file.name for file, header in zip(files, found, strict=True) if file.size != header.end)
    tensors = {name: tensor for header in found for name, tensor in header.tensors.items()}
    return replace(source, headers=Headers(tensors, damaged=tuple(damaged)))


def on_disk(source: Repository, files: Sequence[File], hub: Hub) -> list[Header]:
    return list(map(header_of, files, parts_of(source, files, hub)))


def sure(source: Repository, files: Sequence[File], hub: Hub) -> list[Header]:
    """From the Hub; what is no safetensors is asked for again, for it may have been spoilt on the way."""
    try:
        return on_hub(source, files, hub)
    except Malformed:
        return on_hub(source, files, hub)


def on_hub(source: Repository, files: Sequence[File], hub: Hub) -> list[Header]:
    """The first tells by its length whether to ask for the others, which come all at once."""
    parts = parts_of(source, files, hub)
    sizes = [length_of(files[0], parts[0])]
    afford(len(files) * sizes[0], len(files))
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        sizes += threads.map(length_of, files[1:], parts[1:])
        afford(sum(sizes), len(files))
        return list(threads.map(header_of, files, parts, sizes))


def afford(num_bytes: int, files: int) -> None:
    """Raise Unread where headers of so many bytes in all cost more than a verdict may."""
    if num_bytes + files * 2 * REQUEST > COST:
        raise Unread(f"the headers of {files} files are too large to be read first")


def length_of(file: File, part: Part) -> int:
    with naming(file):
        size = length(part(0, min(LENGTH, file.size)))
        if LENGTH + size > file.size:
            raise Malformed(f"its header of {size} bytes is longer than the file")
        return size


def header_of(file: File, part: Part, size: int = 0) -> Header:
    """`size` is its length; 0: not known yet."""
    size = size or length_of(file, part)
    with naming(file):
        return parsed(part(LENGTH, LENGTH + size))


@contextmanager
def naming(file: File) -> Iterator[None]:
    """What is wrong is wrong with the file."""
    try:
        yield
    except Malformed as reason:
        reason.file = file.name
        raise
