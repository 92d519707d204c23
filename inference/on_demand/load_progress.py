"""Ends the wait for a process that loads a model and gets no further: its disk or its network has stalled.

How long a load may take is not known, so the time alone says nothing. A process that loads reads, writes or
computes. Knows no models.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import psutil

STALL_S = 120.0  # in which a process must do at least one of:
MIN_BYTES = 1 << 20  # read and written, from the network and in memory, too
MIN_CPU_S = 6.0  # a twentieth of a core: waiting for a disk or for a server takes less
POLL_S = 1.0
COUNTS_BYTES = hasattr(psutil.Process, "io_counters")  # macOS does not
LINUX_COUNTERS, COUNTERS = ("read_chars", "write_chars", "read_bytes"), ("read_bytes", "write_bytes")


class Work(NamedTuple):
    """What a process and its children have done since they began."""

    num_bytes: int
    cpu_s: float


@asynccontextmanager
async def limit_stalls(pid: int, stall_s: float, note_cpu_s: Callable[[float], None]) -> AsyncIterator[None]:
    """Raise TimeoutError in the block once the process has done too little for `stall_s` seconds.

    note_cpu_s  is called each POLL_S with the CPU time that the process has used
    """
    async with asyncio.timeout(stall_s) as limit:
        watch = asyncio.ensure_future(extend(limit, pid, stall_s, note_cpu_s))
        try:
            yield
        finally:
            watch.cancel()


async def extend(
    limit: asyncio.Timeout, pid: int, stall_s: float, note_cpu_s: Callable[[float], None]
) -> None:
    """Put the limit off whenever the process has done enough since the last time."""
    last, loop = Work(0, 0.0), asyncio.get_running_loop()
    while not limit.expired():
        work = await asyncio.to_thread(work_of, pid)
        note_cpu_s(work.cpu_s)
        if work.num_bytes - last.num_bytes >= MIN_BYTES or work.cpu_s - last.cpu_s >= MIN_CPU_S:
            last = work
            limit.reschedule(loop.time() + stall_s)
        await asyncio.sleep(min(POLL_S, stall_s / 4))


def work_of(pid: int) -> Work:
    """The work of the process and of its children that still run. What cannot be read counts as none."""
    num_bytes, cpu_s = 0 if COUNTS_BYTES else machine_bytes(), 0.0
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):
                times = each.cpu_times()
                cpu_s += times.user + times.system
                num_bytes += bytes_of(each) if COUNTS_BYTES else 0
    return Work(num_bytes, cpu_s)


def bytes_of(process: psutil.Process) -> int:
    """Bytes of system calls and, on Linux, of pages of mapped files that were read from a disk."""
    counters = process.io_counters()._asdict()
    names = LINUX_COUNTERS if "read_chars" in counters else COUNTERS
    return sum(counters[name] for name in names)


def machine_bytes() -> int:
    """Bytes from the disks and the network of the machine, for systems that count none of a process."""
    disk = psutil.disk_io_counters()
    return psutil.net_io_counters().bytes_recv + (disk.read_bytes + disk.write_bytes if disk else 0)
