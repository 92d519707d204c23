"""The C library's heap: what is freed goes back to the system when it is told so, and not before.

By itself glibc keeps what is freed, and puts smaller things into it: where weights have been, holes remain
that later steps fill here and there, so that ever more of them has pages. Knows mallopt(3); with another C
library nothing is changed.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

# From malloc.h: the size from which on a piece of memory is a map of its own, and the one up to which what is
# free at the heap's end is kept.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
LARGE = 1 << 20  # bytes
# From malloc.c: the size of a freed piece that makes glibc look whether the heap's end can go.
NOT_SMALL = 1 << 17
# What glibc comes to by itself once something so large was freed: a step's memory is not asked for anew each
# time.
STEPS = 1 << 25


@contextmanager
def returning() -> Iterator[None]:
    """Meanwhile what is large has pages of its own, which go back to the system as soon as it is freed."""
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
    """Return freed memory to the system, where the C library does that when asked.

    malloc_trim(3) leaves the end of a part of the heap that is a thread's own, as all but the first have one:
    that of this thread goes when it frees a piece that is not small.
    """
    library = ctypes.CDLL(None)
    trim = getattr(library, "malloc_trim", None)
    if trim is None:
        return
    library.malloc.restype, library.free.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
    with returning():
        library.free(library.malloc(NOT_SMALL))
    trim(0)
