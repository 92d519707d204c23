"""A folder's file system: what it still takes of us, in bytes and files, leave to write, links."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from checks.machine.limits import Bound
from checks.machine.quota import quotas

MANY = 2**63  # files, of a file system that does not count them
SPARE = 1_000_000_000  # bytes that stay free for everything else on the disk


@dataclass(frozen=True, slots=True)
class Folder:
    """As it is now. `unwritable` says why no file can be made there, empty where one can."""

    bytes: Bound
    files: Bound
    unwritable: str
    links: bool


def look_at(folder: Path) -> Folder:
    """Of a folder that is there, or will be. A file is made and removed again."""
    there = existing(folder)
    unwritable, links = tried(there)
    return Folder(*room(there), unwritable=unwritable, links=links)


def free_disk(folder: Path) -> int:
    """Bytes that we may write where `folder` is or will be."""
    return room(existing(folder))[0].left


def room(folder: Path) -> tuple[Bound, Bound]:
    """Bytes and files that we may still write; what is reserved for root does not count."""
    stats, owned = os.statvfs(folder), quotas(folder)
    bytes_ = Bound(stats.f_bavail * stats.f_frsize)
    files = Bound(stats.f_favail if stats.f_files else MANY)
    return (
        least(bytes_, *(Bound(quota.bytes, quota.name) for quota in owned if quota.bytes is not None)),
        least(files, *(Bound(quota.files, quota.name) for quota in owned if quota.files is not None)),
    )


def least(*bounds: Bound) -> Bound:
    return min(bounds, key=lambda bound: bound.left)


def existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def tried(folder: Path) -> tuple[str, bool]:
    """Why no file can be written in the folder; and whether there can be symbolic links."""
    try:
        with tempfile.TemporaryDirectory(prefix=".hearth-", dir=folder) as made:
            (Path(made) / "file").write_bytes(bytes(4096))
            return "", has_links(Path(made))
    except OSError as error:
        return (error.strerror or str(error)).lower(), True


def has_links(folder: Path) -> bool:
    try:
        (folder / "link").symlink_to("file")
    except OSError:
        return False
    return True
