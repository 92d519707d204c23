"""Quotas: what is left of one, whose it is, and that the kernel means the same."""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from checks import disk
from checks.machine import Machine
from checks.machine.quota import GETQUOTA, QUOTACTL_FD, Told, exempt, left, quotas

ROOT = Path(__file__).parent.parent.parent
MB = 1 << 20
SET, BOTH_LIMITS = GETQUOTA + (1 << 8), 1 | 4  # Q_SETQUOTA, QIF_BLIMITS | QIF_ILIMITS
SOMEBODY = 4321
LOOK = """
import os, sys
from pathlib import Path
from checks.machine.filesystem import look_at
os.setgroups([])
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[2]))
seen = look_at(Path(sys.argv[1]))
print(seen.bytes.left, seen.bytes.what, seen.files.left, seen.files.what, sep=",")
written = 0
try:
    with open(Path(sys.argv[1], "file"), "wb", buffering=0) as file:
        while True:
            written += file.write(bytes(4096))
except OSError:
    print(written)
"""


def nobody(folder: Path, kind: int, owner: int) -> Told | None:
    return None


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process may not exceed quotas."""
    monkeypatch.setattr("checks.machine.quota.exempt", lambda: False)


@pytest.mark.skipif(sys.platform != "linux", reason="there is no such call")
def test_the_owners_of_new_files_are_asked_about(bound: None, tmp_path: Path) -> None:
    def ask(folder: Path, kind: int, owner: int) -> Told:
        assert folder == tmp_path and owner == (os.geteuid(), os.getegid())[kind]
        return Told(blocks=4, bytes=1024, files=7, made=2) if kind else Told()

    user, group = quotas(tmp_path, ask)
    assert (user.bytes, user.files) == (None, None)
    assert (group.name, group.bytes, group.files) == ("your group's quota", 3 * 1024, 5)


@pytest.mark.skipif(sys.platform != "linux", reason="there is no such call")
def test_a_folder_may_give_its_files_its_own_group(bound: None, tmp_path: Path) -> None:
    asked = []
    tmp_path.chmod(0o2755)
    quotas(tmp_path, lambda folder, kind, owner: asked.append((kind, owner)))
    assert (1, tmp_path.stat().st_gid) in asked


@pytest.mark.parametrize(
    ("hard", "soft", "used", "until", "free"),
    [(10, 8, 9, 0, 1), (10, 8, 11, 0, 0), (0, 8, 3, 0, 5), (0, 0, 3, 0, None), (10, 8, 9, 2**40, 1)],
)
def test_the_hard_limit_holds_or_else_the_soft_one(
    hard: int, soft: int, used: int, until: int, free: int | None
) -> None:
    assert left(hard, soft, used, until) == free


def test_beyond_the_soft_limit_time_runs_out() -> None:
    assert left(10, 8, 9, int(time.time()) - 1) == 0


@pytest.mark.parametrize(
    ("granted", "users", "free"),
    [
        ("000001ffffffffff", "0 0 4294967295", True),
        ("000001ffffffffff", "0 1000 1", False),
        ("0", "0 0 4294967295", False),
    ],
)
def test_who_may_exceed_all_quotas_has_none(tmp_path: Path, granted: str, users: str, free: bool) -> None:
    (tmp_path / "status").write_text(f"Name:\tx\nCapEff:\t{granted}\n")
    (tmp_path / "uid_map").write_text(f"         {users}\n")
    assert exempt(tmp_path) is free


def test_where_the_kernel_says_nothing_there_are_none(bound: None, tmp_path: Path) -> None:
    assert quotas(tmp_path, nobody) == []


def test_the_quota_that_binds_is_named(machine: Machine) -> None:
    told = disk.space(10 * MB, replace(machine, disk=5 * MB, disk_under="your quota"))
    assert not told.ok and told.have == "5.2 MB free under your quota"
    told = disk.cache(10, replace(machine, inodes=5, inodes_under="your group's quota"))
    assert not told.ok and told.have.startswith("room for 5 under your group's quota")


@pytest.fixture
def limited() -> Iterator[Path]:
    """A file system in which SOMEBODY may have 8 MB and 20 files, and has a folder."""
    if sys.platform != "linux" or os.geteuid() or not shutil.which("mkfs.ext4"):
        pytest.skip("only root mounts, where there is ext4")
    with tempfile.TemporaryDirectory() as made:
        image, place = Path(made, "image"), Path(made, "place")
        image.write_bytes(b"")
        os.truncate(image, 64 * MB)
        place.mkdir()
        Path(made).chmod(0o755)
        subprocess.run(("mkfs.ext4", "-q", "-O", "quota", image), check=True, capture_output=True)
        if subprocess.run(("mount", "-o", "loop,usrquota", image, place), capture_output=True).returncode:
            pytest.skip("this kernel mounts no such file system here")
        try:
            limit(place)
            yield place / "own"
        finally:
            subprocess.run(("umount", place), check=True)


def limit(place: Path) -> None:
    asked = Told(blocks=8 * MB // 1024, files=20, valid=BOTH_LIMITS)
    folder = os.open(place, os.O_RDONLY)
    failed = ctypes.CDLL(None).syscall(QUOTACTL_FD, folder, SET, SOMEBODY, ctypes.byref(asked))
    os.close(folder)
    if failed:
        pytest.skip("this kernel sets no quota here")
    (place / "own").mkdir()
    os.chown(place / "own", SOMEBODY, SOMEBODY)


def test_the_kernel_stops_us_where_we_said(limited: Path) -> None:
    look = (sys.executable, "-c", LOOK, limited, str(SOMEBODY))
    told = subprocess.run(look, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    seen, stopped = (line.split(",") for line in told.splitlines())
    assert seen[1::2] == ["your quota", "your quota"]
    assert int(seen[2]) == 19  # its folder is one
    written = int(stopped[0])
    assert written <= int(seen[0]) < written + 64 * 1024  # of which the file system takes some itself
