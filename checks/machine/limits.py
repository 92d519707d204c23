"""The limits of this process: memory under cgroups and ulimit, and the number of open files.

Windows has no POSIX resource limits, so none are found there.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from inference.finding import format_size
from inference.process.memory.cgroups import CGROUP_ROOT, OWN_CGROUPS, memory_limits

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

# More files than the server can have open; OPEN_MAX of macOS, which refuses to raise the limit further.
MAX_OPEN_FILES = 10_240 if sys.platform == "darwin" else 65_536
# (resource limit, the field of psutil's memory_info that counts against it, its shell command, bytes that the
# server maps and never fills: stacks of threads and, as address space, arenas of the C library)
RESOURCE_LIMITS = (
    ("RLIMIT_AS", "vms", "ulimit -v", 500_000_000),
    ("RLIMIT_DATA", "data", "ulimit -d", 250_000_000),
)


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """A limit of the memory that this process may still take.

    remaining   bytes
    limited_by  name of the limit; empty: the free memory of the machine
    """

    remaining: int
    limited_by: str = ""


def available_ram() -> MemoryLimit:
    """The tightest limit: the free memory of the machine, the cgroups or the resource limits."""
    free = MemoryLimit(psutil.virtual_memory().available)
    return min((free, *container_limits(), *process_limits()), key=lambda limit: limit.remaining)


def container_limits(groups: Path = CGROUP_ROOT, own: Path = OWN_CGROUPS) -> Iterator[MemoryLimit]:
    """The limit of each cgroup of this process. Reclaimable page cache counts as free."""
    for limit, used, reclaimable in memory_limits(groups, own):
        yield MemoryLimit(limit - used + reclaimable, f"the container's limit of {format_size(limit)}")


def process_limits() -> Iterator[MemoryLimit]:
    """The resource limits of this process: address space (ulimit -v) and data (ulimit -d)."""
    used = psutil.Process().memory_info()
    for name, counter, command, unfilled in RESOURCE_LIMITS if resource else ():
        limit = resource.getrlimit(getattr(resource, name))[0]
        if limit != resource.RLIM_INFINITY and hasattr(used, counter):
            remaining = limit - getattr(used, counter) - unfilled
            yield MemoryLimit(max(0, remaining), f"{command}, {format_size(limit)}")


def max_open_files() -> int:
    """Files and connections that may be open at a time after `raise_open_file_limit`: the hard limit."""
    if resource is None:
        return MAX_OPEN_FILES
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else hard


def raise_open_file_limit() -> None:
    """Raise the soft limit of open files to the hard limit, at most to MAX_OPEN_FILES."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = min(max_open_files(), MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
