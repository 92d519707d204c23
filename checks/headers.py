"""The headers of a model's files of weights, read from the disk, or from the Hub in ranges.

What they hold is tensors.py's. Not a byte of a weight is read, nor more of headers than a verdict may cost.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import repeat
from pathlib import Path
from threading import Event

from checks.fetch.line import Address, Denied, Fault, Line, NoRanges, Signals, address_of
from checks.finding import Finding, Refused
from checks.source.config import checked
from checks.source.file import File
from checks.source.gguf import config
from checks.source.hub import Hub
from checks.source.repository import Repository
from checks.source.tensors import LENGTH, Header, Headers, Malformed, Unread, length, parsed
from inference.model.gguf.head import STEP, Head, head
from inference.model.gguf.head import Malformed as NoGguf
from inference.model.gguf.parts import together

COST = 400_000  # bytes: what is left of 2 MB when the small files have been read
LITTLE = 1 << 13  # bytes asked for at once of a part of a GGUF file that has few settings
REQUEST = 1000  # bytes of an answer besides what was asked for
TIMEOUT_S = 4.0
CONNECTIONS = 12

Part = Callable[[int, int], bytes]  # [start, stop) of a file


def headed(source: Repository, hub: Hub) -> Repository:
    """The same with what its files of weights hold, and of a GGUF file what it says of itself.

    What cannot be read is told of. Raises Refused for a GGUF file, without whose head nothing is known.
    """
    if source.gguf:
        return by_gguf(source, hub)
    files = [file for file in source.held if file.name.endswith(".safetensors")]
    if not files or (source.folder is not None and not all(file.here for file in files)):
        return source
    try:
        found = on_disk(source.folder, files) if source.folder else on_hub(source, files, hub)
    except Unread as reason:
        return replace(source, headers=Headers(unread=str(reason)))
    except Malformed as reason:
        return replace(source, headers=Headers(malformed=str(reason)))
    damaged = (file.name for file, header in zip(files, found, strict=True) if file.size != header.end)
    tensors = {name: tensor for header in found for name, tensor in header.tensors.items()}
    return replace(source, headers=Headers(tensors, damaged=tuple(damaged)))


def by_gguf(source: Repository, hub: Hub) -> Repository:
    files = source.held
    names, sizes = [file.name for file in files], [file.size for file in files]
    try:
        found = heads_on_disk(source.folder, files) if source.folder else heads_on_hub(source, files, hub)
        told = config(together(names, sizes, found), source.weights)
        return replace(source, config=checked(told, source.name))
    except (Unread, NoGguf) as reason:
        mend = "choose another GGUF_FILE, or a model with safetensors"
        raise Refused(Finding("weights", source.gguf, str(reason), False, mend)) from reason


def heads_on_disk(folder: Path, files: Sequence[File]) -> list[Head]:
    return [head(partial(part_of, folder / file.name), file.size, file.size) for file in files]


def heads_on_hub(source: Repository, files: Sequence[File], hub: Hub) -> list[Head]:
    """The first has the settings of all, and is read further than the others, whose tables come soon."""
    line, rest = line_to(hub), len(files) - 1
    places = [address_of(hub.endpoint, source.name, source.commit, file.name) for file in files]
    parts = [partial(asked, line, place, file.size) for place, file in zip(places, files, strict=True)]
    each = COST // 2 // max(1, rest) - REQUEST
    most, steps = (COST // 2 if rest else COST, *repeat(each, rest)), (STEP, *repeat(min(LITTLE, each), rest))
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        return list(threads.map(head, parts, (file.size for file in files), most, steps))


def line_to(hub: Hub) -> Line:
    return Line(hub, Signals(Event()), TIMEOUT_S, CONNECTIONS)


def on_disk(folder: Path, files: Sequence[File]) -> list[Header]:
    return [header_of(file, partial(part_of, folder / file.name)) for file in files]


def on_hub(source: Repository, files: Sequence[File], hub: Hub) -> list[Header]:
    """The first tells by its length whether to ask for the others, which come all at once."""
    line = line_to(hub)
    places = [address_of(hub.endpoint, source.name, source.commit, file.name) for file in files]
    parts = [partial(asked, line, place, file.size) for place, file in zip(places, files, strict=True)]
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
    """What is wrong is told with the file's name."""
    try:
        yield
    except Malformed as reason:
        raise Malformed(f"{file.name}: {reason}") from reason


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
