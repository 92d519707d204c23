"""What is read back from the cache folder is what this user has written, whole."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from inference.process.cache_folder import UntrustedFile, is_own, read_with_digest, write_with_digest
from tests.fakes.windows_files import rename_as_windows

CONTENT = b"measured"
ANOTHER_USER = 12345


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_with_digest(tmp_path / "folder" / "kept", CONTENT)
    return tmp_path / "folder" / "kept"


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip_a_bit(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def let_all_write(path: Path) -> None:
    path.chmod(0o666)


def replace_by_link(path: Path) -> None:
    os.replace(path, path.with_name("other"))
    path.symlink_to("other")


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


POSIX_CHANGES = [let_all_write, replace_by_link, replace_by_pipe]
CHANGES = [
    *(truncate, empty, flip_a_bit, replace_by_folder),
    *(pytest.param(change, marks=pytest.mark.system("posix")) for change in POSIX_CHANGES),
]


@pytest.mark.system("posix")
def test_a_kept_file_is_read_back_and_only_its_owner_reads_it(path: Path) -> None:
    assert read_with_digest(path) == CONTENT
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_others_may_have_written_or_that_was_changed_is_refused(
    path: Path, change: Callable[[Path], None]
) -> None:
    change(path)
    with pytest.raises(OSError):
        read_with_digest(path)


@pytest.mark.system("posix")
def test_the_file_of_another_user_is_refused(path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root gives a file to another user")
    os.chown(path, ANOTHER_USER, -1)
    assert not is_own(path.stat())
    with pytest.raises(UntrustedFile, match="another user"):
        read_with_digest(path)


def test_without_owners_the_profile_protects_the_files(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "geteuid", raising=False)
    path.chmod(0o666)  # what Windows says of every file
    assert is_own(path.stat()) and read_with_digest(path) == CONTENT


def test_a_file_is_replaced_as_windows_allows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename_as_windows(monkeypatch)
    write_with_digest(path, b"newer")
    assert read_with_digest(path) == b"newer"
