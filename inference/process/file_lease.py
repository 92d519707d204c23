"""FileLease: mapped weights stay as they are when another program truncates or overwrites their file.

Truncating a mapped file ends the process with SIGBUS, and overwriting it changes the weights. With a read
lease (fcntl(2), Linux) the kernel holds the other program back, up to 45 s, while the file's pages in this
process are replaced by copies. Removing the file, or renaming another one to its name, changes no mapping and
needs no copies. Knows addresses and files; file systems without leases, such as NFS, protect nothing.
"""

import contextlib
import ctypes
import logging
import mmap
import os
import signal
import struct
import sys
import threading
from collections.abc import Iterable, Sequence
from ctypes import c_int, c_int64, c_size_t, c_void_p
from pathlib import Path

from torch import Tensor

from inference.process.memory.mmap_release import AddressRange, address_range, mappings, mappings_of

try:
    import fcntl
except ImportError:  # Windows has no leases
    fcntl = None  # type: ignore[assignment]

F_SETOWN_EX, F_OWNER_TID = 15, 0  # of fcntl.h; Python's module does not have them
MREMAP_TO = 1 | 2  # MREMAP_MAYMOVE | MREMAP_FIXED of mman.h
FAILED = c_void_p(-1).value
COPIED_AT_ONCE = 1 << 24  # bytes that are in memory twice
SIGNAL = getattr(signal, "SIGURG", 0)  # ignored by threads that do not wait for it

log = logging.getLogger(__name__)


class FileLease:
    """A lease on one file, and the thread that waits for another program to want to write to it.

    ranges: the addresses that are then copied, as far as the file is mapped there
    """

    def __init__(self, path: Path, ranges: Sequence[AddressRange]) -> None:
        """Raises OSError for a file without leases, of another user, or that is being written to."""
        self._path, self._ranges = path, ranges
        self._is_closed = False
        self._descriptor = os.open(path, os.O_RDONLY)
        self._error: OSError | None = None
        is_ready = threading.Event()
        self._thread = threading.Thread(target=self._hold, args=(is_ready,), name="file-lease", daemon=True)
        self._thread.start()
        is_ready.wait()
        if self._error:
            raise self._error

    def close(self) -> None:
        """Give the lease back: the memory is no longer used."""
        self._is_closed = True
        if self._thread.is_alive() and self._thread.ident:
            signal.pthread_kill(self._thread.ident, SIGNAL)

    def _hold(self, is_ready: threading.Event) -> None:
        """Take the lease; give it back when it is closed, or when the memory is copied."""
        try:
            self._take()
        except OSError as error:
            self._error = error
        is_ready.set()
        try:
            if not self._error:
                signal.sigwait([SIGNAL])
                if not self._is_closed:
                    self._copy()
        finally:
            os.close(self._descriptor)

    def _take(self) -> None:
        """The signal goes to this thread, which blocks it until it waits."""
        signal.pthread_sigmask(signal.SIG_BLOCK, [SIGNAL])
        fcntl.fcntl(self._descriptor, fcntl.F_SETSIG, SIGNAL)
        owner = struct.pack("ii", F_OWNER_TID, threading.get_native_id())
        fcntl.fcntl(self._descriptor, F_SETOWN_EX, owner)
        fcntl.fcntl(self._descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)

    def _copy(self) -> None:
        log.warning("event=file_written path=%s: its mapped weights are copied to memory first", self._path)
        try:
            copy_mapped(self._path, self._ranges)
        except OSError as error:
            log.error("event=file_written path=%s: the weights cannot be copied: %s", self._path, error)


def lease_file(path: Path, ranges: Sequence[AddressRange]) -> FileLease | None:
    """Protect the addresses where the file is mapped; None where there are no leases."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return FileLease(path, ranges)
    return None


def lease_mapped(tensors: Iterable[Tensor]) -> None:
    """Protect the tensors that are mapped from files, until the process ends."""
    addresses = [address_range(tensor) for tensor in tensors if tensor.is_cpu]
    ranges_by_path: dict[str, list[AddressRange]] = {}
    for mapping in mappings():
        mapped = [each for each in addresses if each[0] < mapping.end and mapping.start < each[1]]
        if mapped:
            ranges_by_path.setdefault(mapping.path, []).extend(mapped)
    for path, ranges in ranges_by_path.items():
        lease_file(Path(path), ranges)


def copy_mapped(path: Path, ranges: Sequence[AddressRange]) -> None:
    """Replace a file's pages at these addresses by copies in memory. Raises OSError."""
    for mapping in mappings_of(path):
        for low, high in ranges:
            start = max(mapping.start, low // mmap.PAGESIZE * mmap.PAGESIZE)
            end = min(mapping.end, -(-high // mmap.PAGESIZE) * mmap.PAGESIZE)
            for address in range(start, end, COPIED_AT_ONCE):
                copy_pages(address, min(COPIED_AT_ONCE, end - address), is_writable=mapping.is_writable)


def copy_pages(address: int, size: int, *, is_writable: bool) -> None:
    """Replace whole pages at once, so that other threads read either the file or the copy. Raises OSError."""
    system = ctypes.CDLL(None, use_errno=True)
    system.mmap.argtypes = (c_void_p, c_size_t, c_int, c_int, c_int, c_int64)
    system.mremap.argtypes = (c_void_p, c_size_t, c_size_t, c_int, c_void_p)
    system.mmap.restype = system.mremap.restype = c_void_p
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    copy = system.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if copy in (None, FAILED):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    ctypes.memmove(copy, address, size)
    if not is_writable:
        system.mprotect(c_void_p(copy), c_size_t(size), mmap.PROT_READ)
    if system.mremap(copy, size, size, MREMAP_TO, address) != address:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
