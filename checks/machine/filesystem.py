"""A folder's file system: bytes and files that it still takes, whether we may write, whether it has links."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

MANY = 2**63  # files, of a file system that does not count them


@dataclass(frozen=True, slots=True)
class Folder:
    """As it is now. `unwritable` says why no file can be made there, empty where one can."""

    bytes: int
    files: int
    unwritable: str
    links: bool


def look_at(folder: Path) -> Folder:
    """Of a folder that is there, or will be. A file is made and removed again."""
    there = existing(folder)
    stats = os.statvfs(there)
    unwritable, links = tried(there)
    return Folder(
        bytes=free(stats),
        files=stats.f_favail if stats.f_files else MANY,
        unwritable=unwritable,
        links=links,
    )


def free_disk(folder: Path) -> int:
    """Bytes that we may write where `folder` is or will be; what is reserved for root does not count."""
    return free(os.statvfs(existing(folder)))


def free(stats: os.statvfs_result) -> int:
    return stats.f_bavail * stats.f_frsize


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
