"""A partially downloaded file on the disk, with a journal of the progress of each piece.

The progress survives a crash of the process: the journal is written after the bytes, so it never claims bytes
that were not written. The file's hash detects losses by a power failure.
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
HEADER_BYTES = len(MAGIC) + NUMBER.size  # magic, bytes per piece; the progress of each piece follows
DATA, JOURNAL = ".partial", ".journal"


class PartialFile:
    """The file is divided into pieces of `piece_bytes`; the last one may be shorter.

    piece_progress: bytes written from the start of each piece.
    """

    def __init__(self, blob: Path, size: int, piece_bytes: int) -> None:
        """Resume the partial file that an earlier run left beside `blob`, or start one. Raises OSError."""
        self.blob, self.size = blob, size
        self.data, self.journal = partial_paths(blob)
        journal_state = read_journal(blob, size)
        self.piece_bytes, self.piece_progress = journal_state or (
            piece_bytes,
            [0] * count_pieces(size, piece_bytes),
        )
        if journal_state is None:
            self.restart()

    @property
    def written_bytes(self) -> int:
        return sum(self.piece_progress)

    @property
    def contiguous_bytes(self) -> int:
        """Bytes of the complete pieces at the start of the file, without a gap."""
        lengths = enumerate(self.piece_progress)
        first = next(
            (index for index, done in lengths if done < self.piece_length(index)), len(self.piece_progress)
        )
        return min(first * self.piece_bytes, self.size)

    def piece_length(self, index: int) -> int:
        return min(self.piece_bytes, self.size - index * self.piece_bytes)

    def missing_range(self, index: int) -> tuple[int, int]:
        """The range [start, stop) of the file that piece `index` lacks."""
        start = index * self.piece_bytes
        return start + self.piece_progress[index], start + self.piece_length(index)

    def restart(self) -> None:
        """Discard all progress."""
        self.piece_progress = [0] * count_pieces(self.size, self.piece_bytes)
        self.data.parent.mkdir(parents=True, exist_ok=True)
        self.journal.unlink(missing_ok=True)
        self.data.write_bytes(b"")
        self.journal.write_bytes(
            MAGIC + NUMBER.pack(self.piece_bytes) + bytes(NUMBER.size * len(self.piece_progress))
        )

    @contextmanager
    def open_writer(self, position: int) -> Iterator["PieceWriter"]:
        with open(self.data, "r+b", buffering=0) as data, open(self.journal, "r+b", buffering=0) as journal:
            data.seek(position)
            yield PieceWriter(self, position, data, journal)

    def read_blocks(self, start: int, stop: int, buffer: bytearray) -> Iterator[memoryview]:
        """Yield the bytes [start, stop) of the file. Each view is valid until the next."""
        with open(self.data, "rb", buffering=0) as data:
            data.seek(start)
            while start < stop:
                count = data.readinto(memoryview(buffer)[: stop - start])
                if not count:
                    raise OSError(f"{self.data} is shorter than it was")
                yield memoryview(buffer)[:count]
                start += count

    def publish(self) -> None:
        """Rename the verified file to `blob`, and remove the journal."""
        try:
            self.data.replace(self.blob)
        except FileNotFoundError:
            if not self.blob.exists():  # another writer was first, on a file system without working locks
                raise
        self.journal.unlink(missing_ok=True)


@dataclass(slots=True)
class PieceWriter:
    """Writes bytes from `position` on and records the progress. Each piece has at most one writer."""

    partial: PartialFile
    position: int
    data: FileIO
    journal: FileIO

    def write(self, chunk: bytes) -> None:
        view = memoryview(chunk)
        while view:
            index, offset = divmod(self.position, self.partial.piece_bytes)
            count = self.data.write(view[: self.partial.piece_bytes - offset]) or 0
            self.position += count
            self.record_progress(index, offset + count)
            view = view[count:]

    def record_progress(self, index: int, done: int) -> None:
        if done <= self.partial.piece_progress[index]:
            return  # overwritten with the same bytes, because the server does not support ranges
        self.journal.seek(HEADER_BYTES + NUMBER.size * index)
        self.journal.write(NUMBER.pack(done))
        self.partial.piece_progress[index] = done


def partial_paths(blob: Path) -> tuple[Path, Path]:
    return blob.with_name(blob.name + DATA), blob.with_name(blob.name + JOURNAL)


def count_pieces(size: int, piece_bytes: int) -> int:
    return -(-size // piece_bytes)


def read_journal(blob: Path, size: int) -> tuple[int, list[int]] | None:
    """The bytes per piece and the progress of each piece; None without a valid journal."""
    data, journal = partial_paths(blob)
    try:
        raw, data_bytes = journal.read_bytes(), os.stat(data).st_size
    except OSError:
        return None
    if len(raw) < HEADER_BYTES or not raw.startswith(MAGIC):
        return None
    piece_bytes = NUMBER.unpack_from(raw, len(MAGIC))[0]
    if not piece_bytes or len(raw) != HEADER_BYTES + NUMBER.size * count_pieces(size, piece_bytes):
        return None
    piece_progress = [number for (number,) in NUMBER.iter_unpack(raw[HEADER_BYTES:])]
    ends = (index * piece_bytes + number for index, number in enumerate(piece_progress) if number)
    if max(ends, default=0) > min(data_bytes, size) or max(piece_progress, default=0) > piece_bytes:
        return None
    return piece_bytes, piece_progress


def count_written_bytes(blob: Path, size: int) -> int:
    """Bytes on the disk of a partial file; 0 if there is none."""
    journal_state = read_journal(blob, size)
    return sum(journal_state[1]) if journal_state else 0
