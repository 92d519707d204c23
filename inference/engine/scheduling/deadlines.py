"""The deadlines of sequences, the next one first: a sequence ends when its time has come. Knows ids."""

import heapq
import time
from collections.abc import Collection, Iterator


class Deadlines:
    """A heap of (time.monotonic(), sequence id)."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, deadline: float, sequence_id: int) -> None:
        heapq.heappush(self._entries, (deadline, sequence_id))

    def take_expired(self) -> Iterator[int]:
        """The ids whose time has come, each once; some may have ended already."""
        while self._entries and self._entries[0][0] <= time.monotonic():
            yield heapq.heappop(self._entries)[1]

    def compact(self, unfinished: Collection[int]) -> None:
        """Drop the ids that have ended, once they are more than half."""
        if len(self._entries) > 2 * len(unfinished):
            self._entries = [entry for entry in self._entries if entry[1] in unfinished]
            heapq.heapify(self._entries)
