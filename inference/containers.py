"""The memory limits of the containers that this process is in.

Knows Linux's cgroups of both versions; where they do not exist, none is found. Loads no library.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

GROUPS, OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
NONE = 2**60  # bytes; what the kernel writes where there is no limit is more
# Of each version of cgroups: a limit, what counts against it, and the part of that which can be had back.
ACCOUNTS = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.high", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


class Account(NamedTuple):
    """In bytes. reclaimable: the part of what is used that the kernel gives back when it is asked for."""

    limit: int
    used: int
    reclaimable: int


def accounts(groups: Path = GROUPS, own: Path = OWN) -> Iterator[Account]:
    """Every limit of every cgroup that this process is in, however deep."""
    for folder in folders(groups, own):
        for limit_name, used_name, key in ACCOUNTS:
            limit, used = number_in(folder / limit_name), number_in(folder / used_name)
            if limit is not None and used is not None and limit < NONE:
                yield Account(limit, used, reclaimable(folder / "memory.stat", key))


def folders(groups: Path, own: Path) -> Iterator[Path]:
    """The cgroup folders that hold memory limits of this process: its own, and all above them."""
    inner = {"": "", "memory": ""}
    for line in text_in(own).splitlines():
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
    text = text_in(path).strip()
    return int(text) if text.isdigit() else None


def reclaimable(path: Path, key: str) -> int:
    """File pages that the kernel drops when memory is asked for: counted as used, but to be had."""
    lines = text_in(path).splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(key + " ")), 0)


def text_in(path: Path) -> str:
    """Empty where there is no such file, or it may not be read."""
    try:
        return path.read_text()
    except OSError:
        return ""
