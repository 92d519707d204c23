"""What quotas leave us of a folder's file system, as Linux tells everybody of his own and his group's.

A project's need no question, statvfs has them already: ext4_statfs_project and xfs_qm_statvfs in the kernel.
None are found where there are none, nor those that the kernel does not know, as of most network file systems.
"""

import ctypes
import os
import stat
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

QUOTACTL_FD = 443  # the system call's number, on all processors; since Linux 5.14
GETQUOTA = 0x800007 << 8  # and in its last bits whose: a user's, a group's
BLOCK = 1024  # bytes: what limits count in
EXEMPT = 1 << 24  # CAP_SYS_RESOURCE
EVERYBODY = ["0", "0", "4294967295"]  # how the machine's own namespace maps users, in which alone that counts


class Told(ctypes.Structure):
    """struct if_dqblk of linux/quota.h; 0 for a limit that is not there."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("blocks", "soft_blocks", "bytes")),
        *((name, ctypes.c_uint64) for name in ("files", "soft_files", "made")),
        *((name, ctypes.c_uint64) for name in ("bytes_until", "files_until")),
        ("valid", ctypes.c_uint32),
    )


@dataclass(frozen=True, slots=True)
class Quota:
    """What is left of it; None: any number."""

    name: str
    bytes: int | None
    files: int | None


Ask = Callable[[Path, int, int], Told | None]  # a folder, whose (0: a user's, 1: a group's), and the number


def ask(folder: Path, kind: int, owner: int) -> Told | None:
    """What the kernel says; None where it says nothing."""
    told = Told()
    place = os.open(folder, os.O_RDONLY)
    try:
        call = ctypes.CDLL(None).syscall
        failed = call(QUOTACTL_FD, place, GETQUOTA | kind, ctypes.c_uint32(owner), ctypes.byref(told))
    finally:
        os.close(place)
    return None if failed else told


def quotas(folder: Path, ask: Ask = ask) -> list[Quota]:
    """Those of whom the files will belong to that we make in the folder."""
    if sys.platform != "linux" or exempt():
        return []
    about = folder.stat()
    group = about.st_gid if about.st_mode & stat.S_ISGID else os.getegid()
    asked = (("your quota", ask(folder, 0, os.geteuid())), ("your group's quota", ask(folder, 1, group)))
    return [quota(name, told) for name, told in asked if told]


def quota(name: str, told: Told) -> Quota:
    return Quota(
        name,
        bytes=left(told.blocks * BLOCK, told.soft_blocks * BLOCK, told.bytes, told.bytes_until),
        files=left(told.files, told.soft_files, told.made, told.files_until),
    )


def left(hard: int, soft: int, used: int, until: int) -> int | None:
    """Beyond the soft limit the hard one holds, and none is left once the time for that is over."""
    if until and until < time.time():
        return 0
    limit = hard or soft
    return max(0, limit - used) if limit else None


def exempt(folder: Path = Path("/proc/self")) -> bool:
    """Whether this process may exceed every quota."""
    try:
        lines = (folder / "status").read_text().splitlines()
        granted = next((line.split()[1] for line in lines if line.startswith("CapEff:")), "0")
        return bool(int(granted, 16) & EXEMPT) and (folder / "uid_map").read_text().split() == EVERYBODY
    except OSError:
        return False
