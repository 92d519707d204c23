"""The folder of what a later start need not compute again. Without it everything works, only slower.

Users of a machine may share the folder, and a full disk or a crash may damage a file: what is read back is
what this user or root has written, whole. Some of it is code.
"""

import hashlib
import os
import stat
import tempfile
from pathlib import Path
from typing import BinaryIO

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
# No links, and no pipe, which would keep the start waiting; Windows has neither flag, but converts line ends.
OPEN_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
DIGEST_BYTES = hashlib.sha256().digest_size


class UntrustedFile(OSError):
    """A file that another user of the machine may have written, that is no file, or that was changed."""


def cache_folder() -> Path:
    """The user's cache folder of this project. Raises RuntimeError if the user has no home folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hearth"


def write_with_digest(path: Path, content: bytes) -> None:
    """Replace the file by a digest and the content. Raises OSError."""
    replace_file(path, hashlib.sha256(content).digest() + content)


def read_with_digest(path: Path) -> bytes:
    """The content that write_with_digest wrote. Raises OSError, of which UntrustedFile is one."""
    with open_own(path) as file:
        digest, content = file.read(DIGEST_BYTES), file.read()
    if hashlib.sha256(content).digest() != digest:
        raise UntrustedFile(f"{path.name} was changed, or it is truncated")
    return content


def open_own(path: Path) -> BinaryIO:
    """A file that nobody but this user and root can have written. Raises OSError."""
    descriptor = os.open(path, OPEN_FLAGS)
    status = os.fstat(descriptor)
    if not (is_own(status) and stat.S_ISREG(status.st_mode)):
        os.close(descriptor)
        raise UntrustedFile("another user of this machine may have written it, or it is no file")
    return os.fdopen(descriptor, "rb")


def is_own(status: os.stat_result) -> bool:
    """Whether nobody but this user and root can have written a file, or into a folder.

    Windows has no such owners and modes: there the profile of the user keeps others from the cache.
    """
    if not hasattr(os, "geteuid"):
        return True
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & OTHERS_WRITE


def replace_file(path: Path, content: bytes) -> None:
    """Write the file so that other processes see its former content or all of the new one. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(unfinished, path)  # of a closed file, as Windows requires
    except OSError:
        os.unlink(unfinished)
        raise


def keep_newest(folder: Path, count: int) -> None:
    """Delete all files of the folder but the `count` that were changed last. Raises OSError."""
    files = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in files[count:]:
        path.unlink(missing_ok=True)
