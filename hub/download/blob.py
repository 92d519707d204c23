"""One file of a download: its missing pieces, and the verification of its hash.

A Blob belongs to the thread that assigns the jobs; its jobs run in worker threads, each on its own piece.
Pieces may arrive in any order. The hash reads them in order from the disk, while they are still in the page
cache, and hashes each once. Pieces of an earlier run are hashed in the same way.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from hub.download.http_range import FileAddress, RangeClient
from hub.download.partial import PartialFile
from hub.download.retry import RetryPolicy, retry
from hub.repository import RepoFile

BLOCK_BYTES = 1 << 20  # bytes read for the hash at once


class Blob:
    """A file that is being downloaded.

    supports_ranges  whether the server answers range requests
    num_mismatches   how often the complete file had the wrong hash
    busy_pieces      indices of the pieces that workers are receiving
    hashed_bytes     bytes from the start that `hash` has read
    """

    def __init__(self, file: RepoFile, partial: PartialFile, address: FileAddress) -> None:
        self.file, self.partial, self.address = file, partial, address
        self.supports_ranges, self.num_mismatches = True, 0
        self.busy_pieces: set[int] = set()
        self.restart_hash()

    def restart_hash(self) -> None:
        """Start the hash again from the first byte."""
        self.hash, self.hashed_bytes, self.is_hashing = self.file.new_hash(), 0, False

    def restart(self) -> None:
        """Discard everything received, because the hash is wrong."""
        self.num_mismatches += 1
        self.partial.restart()
        self.restart_hash()

    @property
    def is_complete(self) -> bool:
        return self.hashed_bytes == self.file.size and not self.is_hashing

    @property
    def is_correct(self) -> bool:
        return self.hash.hexdigest() == self.file.etag

    def pending_pieces(self) -> Iterator["ReceivePiece"]:
        """Jobs for the missing pieces without a worker; without range support one for the whole file."""
        if not self.supports_ranges:
            if not self.busy_pieces and self.partial.written_bytes < self.file.size:
                yield ReceivePiece(self, 0, 0, self.file.size)
            return
        for index in range(len(self.partial.piece_progress)):
            start, stop = self.partial.missing_range(index)
            if index not in self.busy_pieces and start < stop:
                yield ReceivePiece(self, index, start, stop)

    def pending_hash(self) -> "HashRange | None":
        """A job to hash the new contiguous bytes; None if there are none, or if a hash job is running."""
        hashable_bytes = self.partial.contiguous_bytes
        return (
            HashRange(self, self.hashed_bytes, hashable_bytes)
            if hashable_bytes > self.hashed_bytes and not self.is_hashing
            else None
        )


@dataclass(frozen=True, slots=True)
class ReceivePiece:
    """A job: receive bytes [start, stop) of piece `index`, or of the whole file without range support."""

    blob: Blob
    index: int
    start: int
    stop: int

    def __call__(self, client: RangeClient, policy: RetryPolicy) -> None:
        """Raises TransientError after the last try, other errors of RangeClient, and OSError of the disk."""
        retry(lambda: self.receive(client), self.position, policy, client.state)

    def position(self) -> int:
        """The position of the next byte to receive."""
        partial = self.blob.partial
        return partial.missing_range(self.index)[0] if self.blob.supports_ranges else partial.written_bytes

    def receive(self, client: RangeClient) -> None:
        blob = self.blob
        start = self.position() if blob.supports_ranges else 0
        with blob.partial.open_writer(start) as writer:
            for chunk in client.read_range(blob.address, start, self.stop, blob.file.size):
                writer.write(chunk)


@dataclass(frozen=True, slots=True)
class HashRange:
    """A job: hash bytes [start, stop), which are on the disk."""

    blob: Blob
    start: int
    stop: int

    def __call__(self, client: RangeClient, policy: RetryPolicy) -> None:
        for view in self.blob.partial.read_blocks(self.start, self.stop, bytearray(BLOCK_BYTES)):
            self.blob.hash.update(view)
            client.state.raise_if_stopped()
