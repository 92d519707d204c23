"""The limits that a process lives under: memory that a container or the shell grants it, files it may open.

Knows Linux's cgroups of both versions, and POSIX's resource limits; where they do not exist, none is found.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from checks.finding import size

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

GROUPS, OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
NONE = 2**60  # bytes; what the kernel writes where there is no limit is more
ENOUGH = 65_536  # files that may be open: more than a server here can have
# Of each version of cgroups: a limit, what counts against it, and the part of that which can be had back.
ACCOUNTS = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.high", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
# Resource limits, what counts against each as psutil has it, and how a shell calls them.
RESOURCES = (("RLIMIT_AS", "vms", "ulimit -v"), ("RLIMIT_DATA", "data", "ulimit -d"))


@dataclass(frozen=True, slots=True)
class Bound:
    """Bytes that are left, and `what` keeps them from being more; empty: the machine has no more."""

    left: int
    what: str = ""


def ram() -> Bound:
    """The tightest of all bounds."""
    free = Bound(psutil.virtual_memory().available)
    return min((free, *container_bounds(), *process_bounds()), key=lambda bound: bound.left)


def container_bounds(groups: Path = GROUPS, own: Path = OWN) -> Iterator[Bound]:
    """Every limit of every cgroup that this process is in, however deep."""
    for folder in folders(groups, own):
        for limit_name, used_name, key in ACCOUNTS:
            limit, used = number_in(folder / limit_name), number_in(folder / used_name)
            if limit is not None and used is not None and limit < NONE:
                left = limit - used + reclaimable(folder / "memory.stat", key)
                yield Bound(left, f"the container's limit of {size(limit)}")


def folders(groups: Path, own: Path) -> Iterator[Path]:
    """The cgroup folders that hold memory limits of this process: its own, and all above them."""
    inner = {"": "", "memory": ""}
    for line in own.read_text().splitlines() if own.exists() else ():
        _, controllers, path = line.split(":", 2)
        inner |= {name: path for name in controllers.split(",") if name in inner}
    roots = (
        (groups, inner[""]),
        (groups / "unified", inner[""]),  # where both versions are there
        (groups / "memory", inner["memory"]),
    )
    for root, path in roots:
        folder = root / path.lstrip("/")
        yield from (above for above in (folder, *folder.parents) if above.is_relative_to(root))


def number_in(path: Path) -> int | None:
    """The number in a kernel file; None where there is no file, or no limit in it."""
    text = path.read_text().strip() if path.is_file() else ""
    return int(text) if text.isdigit() else None


def reclaimable(path: Path, key: str) -> int:
    """File pages that the kernel drops when memory is asked for: counted as used, but to be had."""
    lines = path.read_text().splitlines() if path.is_file() else []
    return next((int(line.split()[1]) for line in lines if line.startswith(key + " ")), 0)


def process_bounds() -> Iterator[Bound]:
    """What the shell that started us allows us of addresses and of data."""
    used = psutil.Process().memory_info()
    for name, counted, command in RESOURCES if resource else ():
        limit = resource.getrlimit(getattr(resource, name))[0]
        if limit != resource.RLIM_INFINITY and hasattr(used, counted):
            yield Bound(limit - getattr(used, counted), f"{command}, {size(limit)}")


def open_files() -> int:
    """Files and connections that may be open once `raise_open_files` has been called."""
    if resource is None:
        return ENOUGH
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return ENOUGH if hard == resource.RLIM_INFINITY else hard


def raise_open_files() -> None:
    """Take what may be taken without asking: shells and services grant few until somebody wants more."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(open_files(), ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
