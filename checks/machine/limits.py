"""The limits that a process lives under: memory that a container or the shell grants it, files it may open.

Knows POSIX's resource limits; where they do not exist, none is found.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from checks.finding import size
from inference.containers import GROUPS, OWN, accounts

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

ENOUGH = 65_536  # files that may be open: more than a server here can have
# Resource limits, what counts against each as psutil has it, and how a shell calls them.
RESOURCES = (("RLIMIT_AS", "vms", "ulimit -v"), ("RLIMIT_DATA", "data", "ulimit -d"))


@dataclass(frozen=True, slots=True)
class Bound:
    """Bytes, or files, that are left, and `what` keeps them from being more; empty: there are no more."""

    left: int
    what: str = ""


def ram() -> Bound:
    """The tightest of all bounds."""
    free = Bound(psutil.virtual_memory().available)
    return min((free, *container_bounds(), *process_bounds()), key=lambda bound: bound.left)


def container_bounds(groups: Path = GROUPS, own: Path = OWN) -> Iterator[Bound]:
    """What each cgroup that this process is in leaves it, file pages counted that it can have back."""
    for limit, used, reclaimable in accounts(groups, own):
        yield Bound(limit - used + reclaimable, f"the container's limit of {size(limit)}")


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
