"""Prefaults memory for weights on an idle core while the libraries are imported.

The first write to a page is slow: the kernel has to find and clear the page, and a hypervisor may have to
provide it. For packed weights that takes longer than the packing. Knows addresses; imports no library, and
does not know what the memory is for. Does nothing on systems other than Linux.
"""

import ctypes
import mmap
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_int, c_int64, c_size_t, c_void_p

HUGE = 1 << 21  # bytes of a huge page
FILL_CHUNK = 4 * HUGE  # bytes filled between two checks for a stop
MIN_BYTES = 1 << 16  # bytes: smaller blocks are not worth pages of their own
FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS if sys.platform == "linux" else 0
FAILED = c_void_p(-1).value


class Arena:
    """A reserved address range.

    start, end      addresses that are not allocated yet
    prefaulted_end  the addresses in front of it have pages
    """

    def __init__(self, size: int) -> None:
        """Reserve `size` bytes. Raises OSError if the system refuses."""
        self.system = ctypes.CDLL(None, use_errno=True)
        for name, argument_types in (
            ("mmap", (c_void_p, c_size_t, c_int, c_int, c_int, c_int64)),
            ("munmap", (c_void_p, c_size_t)),
            ("madvise", (c_void_p, c_size_t, c_int)),
        ):
            getattr(self.system, name).argtypes = argument_types
        self.system.mmap.restype = c_void_p
        length = round_up(size, HUGE) + HUGE
        place = self.system.mmap(None, length, mmap.PROT_READ | mmap.PROT_WRITE, FLAGS, -1, 0)
        if place in (None, FAILED):
            raise OSError(ctypes.get_errno(), "cannot reserve addresses")
        self.start, self.end = round_up(place, HUGE), place + length
        self.prefaulted_end = self.start
        self.unmap(place, self.start)
        self.system.madvise(self.start, self.end - self.start, mmap.MADV_HUGEPAGE)

    def fill(self, limit_bytes: int, stopped: threading.Event) -> None:
        """Prefault the first limit_bytes, or fewer if stopped."""
        end = min(self.start + limit_bytes, self.end)
        while self.prefaulted_end < end and not stopped.is_set():
            count = min(FILL_CHUNK, end - self.prefaulted_end)
            ctypes.memset(self.prefaulted_end, 0, count)  # releases the GIL
            self.prefaulted_end += count

    def allocate(self, size: int) -> ctypes.Array[ctypes.c_ubyte] | None:
        """`size` zero bytes, unmapped when the last reference is dropped; None if too few bytes are left."""
        start, end = self.start, self.start + round_up(size, mmap.PAGESIZE)
        if end > self.end:
            return None
        self.start = end
        return array_type(size, lambda: self.unmap(start, end)).from_address(start)

    def close(self) -> None:
        """Return the addresses that are not allocated to the system."""
        self.unmap(self.start, self.end)
        self.start = self.end

    def unmap(self, start: int, end: int) -> None:
        if start < end:
            self.system.munmap(start, end - start)


def round_up(count: int, to: int) -> int:
    """The least multiple of `to` that is at least `count`."""
    return -(-count // to) * to


def array_type(size: int, end: Callable[[], None]) -> type[ctypes.Array[ctypes.c_ubyte]]:
    """An array type of `size` bytes whose instances call `end` when they are destroyed."""
    members = {"_type_": ctypes.c_ubyte, "_length_": size, "__del__": lambda _: end()}
    return type("Array", (ctypes.Array,), members)


# Global because memory belongs to the process.
_arenas: list[Arena] = []


@contextmanager
def prefaulting(size: int, limit_bytes: int) -> Iterator[None]:
    """Reserve `size` bytes; meanwhile a thread prefaults up to limit_bytes. Does nothing for size 0."""
    try:
        arena = Arena(size) if size and FLAGS else None
    except OSError:
        arena = None
    if arena is None:
        yield
        return
    stopped = threading.Event()
    filler = threading.Thread(target=arena.fill, args=(limit_bytes, stopped), name="prefault", daemon=True)
    filler.start()
    try:
        yield
    finally:
        stopped.set()
        filler.join()
        _arenas.append(arena)


def allocate_prefaulted(size: int) -> ctypes.Array[ctypes.c_ubyte] | None:
    """`size` zero bytes of the arena, prefaulted as far as it came; None if there is no arena or no room."""
    return next((arena.allocate(size) for arena in _arenas), None) if size >= MIN_BYTES else None


@contextmanager
def without_prefault() -> Iterator[None]:
    """Meanwhile leave prefaulted memory alone: for matrices that are dropped soon, such as a benchmark's."""
    arenas = _arenas[:]
    _arenas.clear()
    try:
        yield
    finally:
        _arenas.extend(arenas)


def prefaulted_bytes() -> int:
    """Bytes that have pages and are not allocated."""
    return sum(max(0, arena.prefaulted_end - arena.start) for arena in _arenas)


def release() -> None:
    """Return all memory that is not allocated to the system."""
    while _arenas:
        _arenas.pop().close()
