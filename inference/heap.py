"""The C library's heap: what is freed goes back to the system when it is told so, and not before.

By itself glibc keeps what is freed, and puts smaller things into it: where weights have been, holes remain
that later steps fill here and there, so that ever more of them has pages. Knows mallopt(3); with another C
library nothing is changed.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

# From malloc.h: sizes from which on a piece of memory is a map of its own, and up to which the heap's end is kept.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
LARGE = 1 << 20  # bytes
# What glibc itself comes to once something so large was freed: what steps use is not asked for anew each time.
STEPS = 1 << 25


@contextmanager
def returning() -> Iterator[None]:
    """Meanwhile all that is large has pages of its own, which go back to the system as soon as it is freed."""
    keep(LARGE)
    try:
        yield
    finally:
        keep(STEPS)


def keep(size: int) -> None:
    """Let pieces up to so many bytes be the heap's, which keeps twice of it."""
    tell = getattr(ctypes.CDLL(None), "mallopt", None)
    if tell:
        tell(MMAP_THRESHOLD, size)
        tell(TRIM_THRESHOLD, 2 * size)


def give_back() -> None:
    """Return freed memory to the system, where the C library does that when asked."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)
