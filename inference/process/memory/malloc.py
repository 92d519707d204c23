"""Returns freed heap memory of the C library to the system.

By default glibc keeps freed memory and reuses it for smaller blocks. Freed weights leave holes, which later
steps fill piecemeal: the resident memory of the holes grows. Knows mallopt(3); does nothing with another C
library.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

# From malloc.h: the size from which a block is its own mmap, and the free bytes that the heap's end may keep.
TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX = -1, -3, -8
LARGE_BLOCK = 1 << 20  # bytes
# From malloc.c: freeing a block of this size makes glibc check whether to trim the heap's end.
TRIM_TRIGGER = 1 << 17
# The threshold that glibc itself adopts after a block of this size was freed: the memory of a step is reused
# by the next.
STEP_BLOCK = 1 << 25
NUM_ARENAS = 2


@contextmanager
def mmap_large_blocks() -> Iterator[None]:
    """Meanwhile every large block is its own mmap: freeing it returns its pages to the system at once."""
    set_mmap_threshold(LARGE_BLOCK)
    try:
        yield
    finally:
        set_mmap_threshold(STEP_BLOCK)


def set_mmap_threshold(size: int) -> None:
    """Allocate blocks up to `size` bytes on the heap, and keep up to twice that free at its end."""
    set_option(MMAP_THRESHOLD, size)
    set_option(TRIM_THRESHOLD, 2 * size)


def limit_arenas() -> None:
    """Let all threads share NUM_ARENAS arenas: each one maps 64 MB of address space, which may be limited."""
    set_option(ARENA_MAX, NUM_ARENAS)


def set_option(option: int, value: int) -> None:
    library = library_with("mallopt")
    if library:
        library.mallopt(option, value)


def prefault_heap(num_bytes: int) -> None:
    """Let the heap of this thread have pages for a block of up to STEP_BLOCK bytes, without Python's lock.

    The next block of this size is then filled in less than half the time: else the kernel clears each page at
    the first write, which keeps all other threads waiting if the writer has the lock.
    """
    library = library_with("mallopt")
    if library is None:
        return
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    library.free.argtypes = (ctypes.c_void_p,)
    if block := library.malloc(num_bytes):
        ctypes.memset(block, 0, num_bytes)  # releases the lock
        library.free(block)


def trim_heap() -> None:
    """Return freed memory to the system, if the C library supports it.

    malloc_trim(3) does not trim the end of a thread's own arena, which every thread except the first has. The
    arena of this thread is trimmed when the thread frees a block of TRIM_TRIGGER bytes.
    """
    library = library_with("malloc_trim")
    if library is None:
        return
    library.malloc.restype, library.free.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
    with mmap_large_blocks():
        library.free(library.malloc(TRIM_TRIGGER))
    library.malloc_trim(0)


def library_with(name: str) -> ctypes.CDLL | None:
    """The C library if it has the function; Windows has no handle for the symbols of a process."""
    library = None if os.name == "nt" else ctypes.CDLL(None)
    return library if hasattr(library, name) else None
