"""Resident memory of a process as the kernel counts it: now, and at its peak.

Knows Linux's /proc (proc(5): status, clear_refs, pagemap); elsewhere it uses psutil.
"""

import contextlib
import mmap
import os
from pathlib import Path
from typing import NamedTuple

import psutil

STATUS, CLEAR_REFS = "status", "clear_refs"
KB = 1024
ENTRY_BYTES = 8  # a page in pagemap
PRESENT = 1 << 6  # least value of an entry's last byte if the page is present or swapped


class ResidentMemory(NamedTuple):
    """Resident memory in bytes.

    own    anonymous and shared memory
    files  pages of mapped files, which the system can drop and read again
    peak   the maximum of own and files together since the start, or since reset_peak
    """

    own: int
    files: int
    peak: int

    @property
    def total(self) -> int:
        return self.own + self.files


def resident_memory(pid: int | None = None) -> ResidentMemory:
    """The resident memory of a process, by default this one; zeros if it has ended and was not waited for."""
    pid = pid or os.getpid()
    path = Path("/proc", str(pid), STATUS)
    if not path.exists():
        rss = 0
        with contextlib.suppress(psutil.NoSuchProcess):  # ended, or a zombie
            rss = psutil.Process(pid).memory_info().rss
        return ResidentMemory(rss, 0, rss)
    lines = dict(line.split(":", 1) for line in path.read_text("utf-8").splitlines() if ":" in line)
    own, files, shared, peak = (
        int(lines.get(name, "0").split()[0]) * KB for name in ("RssAnon", "RssFile", "RssShmem", "VmHWM")
    )
    return ResidentMemory(own + shared, files, peak)


def reset_peak(pid: int | None = None) -> None:
    """Restart the peak from now; does nothing if the system has no peak counter or forbids the reset."""
    path = Path("/proc", str(pid or os.getpid()), CLEAR_REFS)
    try:
        path.write_text("5", "utf-8")
    except OSError:
        return


def written_bytes(address: int, size: int) -> int:
    """Bytes of the memory from `address` on that have pages; `size` if the system does not provide pagemap.

    proc(5), pagemap: eight bytes per page; bit 63 is set if the page is present, bit 62 if it is swapped.
    """
    page_size = mmap.PAGESIZE
    first, count = address // page_size, -(-(address % page_size + size) // page_size)
    try:
        with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
            pagemap.seek(first * ENTRY_BYTES)
            entries = pagemap.read(count * ENTRY_BYTES)
    except OSError:
        return size
    if len(entries) != count * ENTRY_BYTES:
        return size
    return min(size, page_size * sum(byte >= PRESENT for byte in entries[ENTRY_BYTES - 1 :: ENTRY_BYTES]))
