"""A file on its way: its bytes where they belong, and a journal of how far each piece of it has come.

Knows one file on a disk, nothing of the network. What is written survives the end of the process at any
moment: the journal follows the bytes, so it never claims one that was not written. What a power cut takes all
the same, the file's hash finds.
"""

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

MAGIC = b"hearth1\0"
NUMBER = struct.Struct("<Q")
HEADER = len(MAGIC) + NUMBER.size  # the magic, the size of a piece; then a number for each piece
DATA, JOURNAL = ".partial", ".journal"


class Partial:
    """`done`: for each piece of `piece` bytes (the last may be shorter), the bytes there from its start."""

    def __init__(self, blob: Path, size: int, piece: int) -> None:
        """Take up what an earlier run left beside `blob`. Raises OSError."""
        self.blob, self.size = blob, size
        self.data, self.journal = beside(blob)
        found = read_journal(blob, size)
        self.piece, self.done = found or (piece, [0] * pieces_of(size, piece))
        if found is None:
            self.restart()

    @property
    def written(self) -> int:
        return sum(self.done)

    @property
    def whole(self) -> int:
        """Bytes at the beginning that are there without a gap, in pieces that are complete."""
        lengths = enumerate(self.done)
        first = next((index for index, done in lengths if done < self.length(index)), len(self.done))
        return min(first * self.piece, self.size)

    def length(self, index: int) -> int:
        return min(self.piece, self.size - index * self.piece)

    def gap(self, index: int) -> tuple[int, int]:
        """What of a piece is not there yet: from, to."""
        start = index * self.piece
        return start + self.done[index], start + self.length(index)

    def restart(self) -> None:
        """Nothing of it counts any more."""
        self.done = [0] * pieces_of(self.size, self.piece)
        self.data.parent.mkdir(parents=True, exist_ok=True)
        self.journal.unlink(missing_ok=True)
        self.data.write_bytes(b"")
        self.journal.write_bytes(MAGIC + NUMBER.pack(self.piece) + bytes(NUMBER.size * len(self.done)))

    @contextmanager
    def writing(self, position: int) -> Iterator["Pen"]:
        with open(self.data, "r+b", buffering=0) as data, open(self.journal, "r+b", buffering=0) as journal:
            data.seek(position)
            yield Pen(self, position, data, journal)

    def reading(self, start: int, stop: int, buffer: bytearray) -> Iterator[memoryview]:
        """The bytes there; each view is good until the next."""
        with open(self.data, "rb", buffering=0) as data:
            data.seek(start)
            while start < stop:
                count = data.readinto(memoryview(buffer)[: stop - start])
                if not count:
                    raise OSError(f"{self.data} is shorter than it was")
                yield memoryview(buffer)[:count]
                start += count

    def publish(self) -> None:
        """It is complete and right: give it its name."""
        try:
            self.data.replace(self.blob)
        except FileNotFoundError:
            if not self.blob.exists():  # a writer on a file system whose locks hold nobody was first
                raise
        self.journal.unlink(missing_ok=True)


@dataclass(slots=True)
class Pen:
    """Writes on from `position`; each piece has one pen at a time."""

    partial: Partial
    position: int
    data: FileIO
    journal: FileIO

    def write(self, chunk: bytes) -> None:
        view = memoryview(chunk)
        while view:
            index, inside = divmod(self.position, self.partial.piece)
            count = self.data.write(view[: self.partial.piece - inside]) or 0
            self.position += count
            self.note(index, inside + count)
            view = view[count:]

    def note(self, index: int, done: int) -> None:
        if done <= self.partial.done[index]:
            return  # written over, with the same bytes, by a server that knows no ranges
        self.journal.seek(HEADER + NUMBER.size * index)
        self.journal.write(NUMBER.pack(done))
        self.partial.done[index] = done


def beside(blob: Path) -> tuple[Path, Path]:
    return blob.with_name(blob.name + DATA), blob.with_name(blob.name + JOURNAL)


def pieces_of(size: int, piece: int) -> int:
    return -(-size // piece)


def read_journal(blob: Path, size: int) -> tuple[int, list[int]] | None:
    """The size of a piece, and what is there of each; None where there is nothing to believe."""
    data, journal = beside(blob)
    try:
        raw, there = journal.read_bytes(), os.stat(data).st_size
    except OSError:
        return None
    if len(raw) < HEADER or not raw.startswith(MAGIC):
        return None
    piece = NUMBER.unpack_from(raw, len(MAGIC))[0]
    if not piece or len(raw) != HEADER + NUMBER.size * pieces_of(size, piece):
        return None
    done = [number for (number,) in NUMBER.iter_unpack(raw[HEADER:])]
    ends = (index * piece + number for index, number in enumerate(done) if number)
    if max(ends, default=0) > min(there, size) or max(done, default=0) > piece:
        return None
    return piece, done


def written(blob: Path, size: int) -> int:
    """Bytes on the disk of a file that is not complete."""
    found = read_journal(blob, size)
    return sum(found[1]) if found else 0
