"""RAM of this process as the kernel counts it: what it has, and the most it had.

Knows Linux's /proc (proc(5): status, clear_refs, pagemap); elsewhere it only knows what psutil does.
"""

import mmap
import os
from pathlib import Path
from typing import NamedTuple

import psutil

STATUS, RESET = "status", "clear_refs"
KB = 1024
ENTRY, THERE = 8, 1 << 6  # bytes of a page's entry, and its last byte where the page is present or swapped


class Resident(NamedTuple):
    """In bytes. own: memory of nobody else; files: pages of files that are mapped, which the system can drop
    and read again; peak: the most of both since the start, or since `forget_peak`."""

    own: int
    files: int
    peak: int

    @property
    def all(self) -> int:
        return self.own + self.files


def resident(pid: int | None = None) -> Resident:
    """Of a process, by default this one."""
    pid = pid or os.getpid()
    path = Path("/proc", str(pid), STATUS)
    if not path.exists():
        held = psutil.Process(pid).memory_info().rss
        return Resident(held, 0, held)
    lines = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
    own, files, shared, peak = (
        int(lines[name].split()[0]) * KB for name in ("RssAnon", "RssFile", "RssShmem", "VmHWM")
    )
    return Resident(own + shared, files, peak)


def forget_peak(pid: int | None = None) -> None:
    """Have the peak count from now on; without effect where the system keeps none, or forbids it."""
    path = Path("/proc", str(pid or os.getpid()), RESET)
    try:
        path.write_text("5")
    except OSError:
        return


def written(address: int, size: int) -> int:
    """Bytes of the memory from `address` on that have pages; all of it where the system does not say.

    proc(5), pagemap: eight bytes for each page, of which bit 63 says that it is present and bit 62 swapped.
    """
    page = mmap.PAGESIZE
    first, count = address // page, -(-(address % page + size) // page)
    try:
        with open("/proc/self/pagemap", "rb", buffering=0) as map:
            told = os.pread(map.fileno(), count * ENTRY, first * ENTRY)
    except OSError:
        return size
    if len(told) != count * ENTRY:
        return size
    return min(size, page * sum(byte >= THERE for byte in told[ENTRY - 1 :: ENTRY]))
