"""The memory limits of the containers around this process.

Knows Linux's cgroups, versions 1 and 2; finds no limits on other systems. Imports no library.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CGROUP_ROOT, OWN_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
NO_LIMIT = 2**60  # bytes; the kernel writes a larger number for "no limit"
# By version of cgroups: files of a limit and of the usage, and the reclaimable part in memory.stat.
LIMIT_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.high", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


class CgroupLimit(NamedTuple):
    """Bytes. `reclaimable` is the part of `used` that the kernel frees when memory is needed."""

    limit: int
    used: int
    reclaimable: int


def memory_limits(cgroup_root: Path = CGROUP_ROOT, own_cgroups: Path = OWN_CGROUPS) -> Iterator[CgroupLimit]:
    """Every limit of every cgroup around this process."""
    for folder in cgroup_folders(cgroup_root, own_cgroups):
        for limit_name, used_name, key in LIMIT_FILES:
            limit, used = read_number(folder / limit_name), read_number(folder / used_name)
            if limit is not None and used is not None and limit < NO_LIMIT:
                yield CgroupLimit(limit, used, reclaimable_bytes(folder / "memory.stat", key))


def cgroup_folders(cgroup_root: Path, own_cgroups: Path) -> Iterator[Path]:
    """The folders of this process's memory cgroups and of all their parents."""
    path_of_controller = {"": "", "memory": ""}
    for line in read_text(own_cgroups).splitlines():
        _, controllers, path = line.split(":", 2)
        path_of_controller |= {name: path for name in controllers.split(",") if name in path_of_controller}
    roots = (
        (cgroup_root, path_of_controller[""]),
        (cgroup_root / "unified", path_of_controller[""]),  # with both versions mounted
        (cgroup_root / "memory", path_of_controller["memory"]),
    )
    for root, path in roots:
        folder = root / path.lstrip("/")
        yield from (parent for parent in (folder, *folder.parents) if parent.is_relative_to(root))


def read_number(path: Path) -> int | None:
    """The number in a kernel file; None if the file is missing or contains no limit."""
    text = read_text(path).strip()
    return int(text) if text.isdigit() else None


def reclaimable_bytes(path: Path, key: str) -> int:
    """Bytes of file pages that count as used but are dropped when memory is needed."""
    lines = read_text(path).splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(key + " ")), 0)


def read_text(path: Path) -> str:
    """The text of a file; empty if it is missing or unreadable."""
    try:
        return path.read_text("utf-8")
    except OSError:
        return ""
