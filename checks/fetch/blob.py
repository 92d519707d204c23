"""One file: what is left to ask for, and whether what came is what the Hub promised.

Belongs to the thread that hands out the work; the jobs it hands out run in others, each on a piece of its
own. The hash follows behind the pieces, in order: it reads them while the system still has them in memory,
and what an earlier run left it reads the same way. So pieces may come in any order, none is hashed twice.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from checks.fetch.line import Address, Line
from checks.fetch.partial import Partial
from checks.fetch.patience import Patience, persist
from checks.source.file import File

BLOCK = 1 << 20  # bytes read for the hash at once


class Blob:
    """`ranges`: the server gives parts; `wrong`: how often all of it came and was not what it should be."""

    def __init__(self, file: File, partial: Partial, address: Address) -> None:
        self.file, self.partial, self.address = file, partial, address
        self.ranges, self.wrong = True, 0
        self.busy: set[int] = set()
        self.begin()

    def begin(self) -> None:
        """Hash from the beginning."""
        self.hash, self.hashed, self.hashing = self.file.hashing(), 0, False

    def again(self) -> None:
        """What came is wrong: nothing of it counts."""
        self.wrong += 1
        self.partial.restart()
        self.begin()

    @property
    def complete(self) -> bool:
        return self.hashed == self.file.size and not self.hashing

    @property
    def right(self) -> bool:
        return self.hash.hexdigest() == self.file.etag

    def to_receive(self) -> Iterator["Receive"]:
        """The parts that nobody is at: a piece each, or all of it where the server knows no ranges."""
        if not self.ranges:
            if not self.busy and self.partial.written < self.file.size:
                yield Receive(self, 0, 0, self.file.size)
            return
        for index in range(len(self.partial.done)):
            start, stop = self.partial.gap(index)
            if index not in self.busy and start < stop:
                yield Receive(self, index, start, stop)

    def to_prove(self) -> "Prove | None":
        """The pieces that the hash has not seen, as far as there is no gap."""
        ready = self.partial.whole
        return Prove(self, self.hashed, ready) if ready > self.hashed and not self.hashing else None


@dataclass(frozen=True, slots=True)
class Receive:
    """Bytes [start, stop) of a file, in its piece `index`; from 0 to its size where there are no ranges."""

    blob: Blob
    index: int
    start: int
    stop: int

    def __call__(self, line: Line, patience: Patience) -> None:
        """Raises Fault when patience ends, what else Line raises, OSError where the disk takes no more."""
        persist(lambda: self.receive(line), self.position, patience, line.signals)

    def position(self) -> int:
        """How far it is."""
        partial = self.blob.partial
        return partial.gap(self.index)[0] if self.blob.ranges else partial.written

    def receive(self, line: Line) -> None:
        blob = self.blob
        start = self.position() if blob.ranges else 0
        with blob.partial.writing(start) as pen:
            for chunk in line.part(blob.address, start, self.stop, blob.file.size):
                pen.write(chunk)


@dataclass(frozen=True, slots=True)
class Prove:
    """Hash bytes [start, stop), which are on the disk."""

    blob: Blob
    start: int
    stop: int

    def __call__(self, line: Line, patience: Patience) -> None:
        for view in self.blob.partial.reading(self.start, self.stop, bytearray(BLOCK)):
            self.blob.hash.update(view)
            line.signals.check()
