"""Memory for weights, made ready while libraries are imported, by a core that has nothing else to do.

Memory costs most when it is used first: the system has to find and clear it, and a virtual machine to be
given it, which takes longer than to pack the weights that come there. Knows addresses; imports no library,
and does not know what is kept. On systems other than Linux there is no such room.
"""

import ctypes
import mmap
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_int, c_int64, c_size_t, c_void_p

HUGE = 1 << 21  # bytes of a huge page
AT_ONCE = 4 * HUGE  # bytes that are filled before anybody can stop it
LEAST = 1 << 16  # bytes: less is not worth pages of its own
FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS if sys.platform == "linux" else 0
FAILED = c_void_p(-1).value


class Room:
    """Addresses [start, end), which have memory up to `filled`; those before `start` are somebody's."""

    def __init__(self, size: int) -> None:
        """Raises OSError where the system grants no addresses."""
        self.system = ctypes.CDLL(None, use_errno=True)
        for name, takes in (
            ("mmap", (c_void_p, c_size_t, c_int, c_int, c_int, c_int64)),
            ("munmap", (c_void_p, c_size_t)),
            ("madvise", (c_void_p, c_size_t, c_int)),
        ):
            getattr(self.system, name).argtypes = takes
        self.system.mmap.restype = c_void_p
        whole = rounded(size, HUGE) + HUGE
        place = self.system.mmap(None, whole, mmap.PROT_READ | mmap.PROT_WRITE, FLAGS, -1, 0)
        if place in (None, FAILED):
            raise OSError(ctypes.get_errno(), "no addresses")
        self.start, self.end = rounded(place, HUGE), place + whole
        self.filled = self.start
        self.unmap(place, self.start)
        self.system.madvise(self.start, self.end - self.start, mmap.MADV_HUGEPAGE)

    def fill(self, most: int, stopped: threading.Event) -> None:
        """Have memory found for the first `most` bytes, as far as it comes until it is stopped."""
        end = min(self.start + most, self.end)
        while self.filled < end and not stopped.is_set():
            count = min(AT_ONCE, end - self.filled)
            ctypes.memset(self.filled, 0, count)  # others compute meanwhile
            self.filled += count

    def take(self, size: int) -> ctypes.Array[ctypes.c_ubyte] | None:
        """Zeros that are the caller's; their memory goes back to the system with the last reference to them.
        None where there are not so many bytes left."""
        start, end = self.start, self.start + rounded(size, mmap.PAGESIZE)
        if end > self.end:
            return None
        self.start = end
        return piece_type(size, lambda: self.unmap(start, end)).from_address(start)

    def close(self) -> None:
        """What nobody took goes back to the system."""
        self.unmap(self.start, self.end)
        self.start = self.end

    def unmap(self, start: int, end: int) -> None:
        if start < end:
            self.system.munmap(start, end - start)


def rounded(count: int, to: int) -> int:
    """Up."""
    return -(-count // to) * to


def piece_type(size: int, end: Callable[[], None]) -> type[ctypes.Array[ctypes.c_ubyte]]:
    """So many bytes that call `end` when nobody knows them any more."""
    members = {"_type_": ctypes.c_ubyte, "_length_": size, "__del__": lambda _: end()}
    return type("Piece", (ctypes.Array,), members)


# Memory is the whole process's, and so is what of it is ready.
_rooms: list[Room] = []


@contextmanager
def filling(size: int, most: int) -> Iterator[None]:
    """Meanwhile memory is made ready for `size` bytes, for `most` of them at most. 0: none is."""
    try:
        room = Room(size) if size and FLAGS else None
    except OSError:
        room = None
    if room is None:
        yield
        return
    stopped = threading.Event()
    filler = threading.Thread(target=room.fill, args=(most, stopped), name="room", daemon=True)
    filler.start()
    try:
        yield
    finally:
        stopped.set()
        filler.join()
        _rooms.append(room)


def taken(size: int) -> ctypes.Array[ctypes.c_ubyte] | None:
    """Zeros of the caller, of memory that is ready; None where there is none, or too little."""
    return next((room.take(size) for room in _rooms), None) if size >= LEAST else None


@contextmanager
def spared() -> Iterator[None]:
    """Meanwhile nothing is taken: what is made does not stay."""
    rooms = _rooms[:]
    _rooms.clear()
    try:
        yield
    finally:
        _rooms.extend(rooms)


def ready() -> int:
    """Bytes that have memory and are nobody's."""
    return sum(max(0, room.filled - room.start) for room in _rooms)


def give_back() -> None:
    """What nobody took is not wanted."""
    while _rooms:
        _rooms.pop().close()
