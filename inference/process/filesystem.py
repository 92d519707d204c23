"""The file system of a folder: free bytes and files, write permission, support of symbolic links."""

import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psutil

UNCOUNTED = 2**63  # free files of a file system that does not count files
SPARE_BYTES = 1_000_000_000  # left free for everything else on the disk


@dataclass(frozen=True, slots=True)
class FolderState:
    """The current state of a folder.

    free_bytes, free_files  what may still be written, without what is reserved for root
    write_error             why no file can be created; empty if one can
    has_links               symbolic links are supported
    """

    free_bytes: int
    free_files: int
    write_error: str
    has_links: bool


def inspect_folder(folder: Path) -> FolderState:
    """The state of an existing or future folder. Creates a file for the test and removes it."""
    existing = nearest_existing(folder)
    write_error, has_links = try_writing(existing)
    return FolderState(*measure_free_space(existing), write_error=write_error, has_links=has_links)


def free_disk_bytes(folder: Path) -> int:
    """Bytes that may be written to an existing or future folder."""
    return measure_free_space(nearest_existing(folder))[0]


def measure_free_space(folder: Path) -> tuple[int, int]:
    """(bytes, files) that may still be written, without those reserved for root."""
    if not hasattr(os, "statvfs"):  # Windows
        return psutil.disk_usage(str(folder)).free, UNCOUNTED
    stats = os.statvfs(folder)
    return stats.f_bavail * stats.f_frsize, stats.f_favail if stats.f_files else UNCOUNTED


def nearest_existing(folder: Path) -> Path:
    """The folder or its nearest parent that can be looked up."""
    # Path.exists raises PermissionError below an unreadable folder; os.path.exists returns False.
    return next(path for path in (folder, *folder.parents) if os.path.exists(path))


def try_writing(folder: Path) -> tuple[str, bool]:
    """(why no file can be created in the folder or "", whether symbolic links are supported)"""
    try:
        with tempfile.TemporaryDirectory(prefix=".hearth-", dir=folder) as scratch:
            (Path(scratch) / "file").write_bytes(bytes(4096))
            return "", supports_links(Path(scratch))
    except OSError as error:
        return (error.strerror or str(error)).lower(), True


def supports_links(folder: Path) -> bool:
    link = folder / "link"
    with contextlib.suppress(OSError):
        link.symlink_to("file")
    return link.is_symlink()
