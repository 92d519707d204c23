"""Returns memory that large requests have freed to the system, every few seconds.

The C library keeps freed blocks: after bodies and vectors of megabytes, hundreds of MB that later requests
hardly use. Knows the process's memory, no requests.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from inference.process.memory.malloc import trim_heap
from inference.process.memory.rss import resident_memory

INTERVAL_S = 5.0
MIN_GROWTH = 8 << 20  # bytes since the last time; less is not worth the milliseconds


class HeapTrimmer:
    """For one thread. trim: calls trim_heap, possibly on another thread."""

    def __init__(self, trim: Callable[[], None] = trim_heap) -> None:
        self._trim = trim
        self._bytes = resident_memory().own  # after the last time

    def trim_if_grown(self) -> bool:
        """Trim the heap if the process has grown by MIN_GROWTH; returns whether it did."""
        num_bytes = resident_memory().own
        if num_bytes < self._bytes + MIN_GROWTH:
            self._bytes = min(self._bytes, num_bytes)
            return False
        self._trim()
        self._bytes = resident_memory().own
        return True


@contextmanager
def trimming_heap(trim: Callable[[], None]) -> Iterator[None]:
    """Call `trim` as the process grows, on a thread of its own, until the block ends."""
    over = threading.Event()

    def run() -> None:
        trimmer = HeapTrimmer(trim)
        while not over.wait(INTERVAL_S):
            trimmer.trim_if_grown()

    threading.Thread(target=run, name="heap", daemon=True).start()
    try:
        yield
    finally:
        over.set()
