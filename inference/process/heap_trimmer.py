"""Returns memory that large requests have freed to the system, every few seconds.

The C library keeps freed blocks: after bodies and vectors of megabytes, hundreds of MB that later requests
hardly use. Knows the process's memory, no requests.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from inference.process.malloc import trim_heap
from inference.process.rss import resident_memory

INTERVAL_S = 5.0
MIN_GROWTH = 32 << 20  # bytes since the last time; less is not worth the milliseconds


class HeapTrimmer:
    """For one thread."""

    def __init__(self) -> None:
        self._bytes = resident_memory().own  # after the last time

    def trim_if_grown(self) -> bool:
        """Trim the heap if the process has grown by MIN_GROWTH; returns whether it did."""
        num_bytes = resident_memory().own
        if num_bytes < self._bytes + MIN_GROWTH:
            self._bytes = min(self._bytes, num_bytes)
            return False
        trim_heap()
        self._bytes = resident_memory().own
        return True


@contextmanager
def trimming_heap() -> Iterator[None]:
    """Trim the heap on a thread of its own until the block ends."""
    over = threading.Event()

    def run() -> None:
        trimmer = HeapTrimmer()
        while not over.wait(INTERVAL_S):
            trimmer.trim_if_grown()

    threading.Thread(target=run, name="heap", daemon=True).start()
    try:
        yield
    finally:
        over.set()
