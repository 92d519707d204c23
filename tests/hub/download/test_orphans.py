"""Files left by dead downloads are removed; files that may be in use are not."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from hub.cache import ModelCache
from hub.download.lock import remove_orphans
from hub.download.retry import DEFAULT_OPTIONS

ETAG = "a" * 64
QUIET_S = DEFAULT_OPTIONS.quiet_s


@pytest.fixture
def storage(tmp_path: Path) -> ModelCache:
    result = ModelCache(tmp_path / "models--acme--large")
    result.blobs.mkdir(parents=True)
    return result


@pytest.fixture
def leave_blob(storage: ModelCache) -> Callable[..., Path]:
    """Writes a file among the blobs; by default it is an hour old."""

    def leave(name: str, age_s: float = 3600) -> Path:
        path = storage.blobs / name
        path.write_bytes(bytes(8192))
        os.utime(path, (time.time() - age_s,) * 2)
        return path

    return leave


@pytest.mark.parametrize("suffix", [".partial", ".journal", ".incomplete", ".0a1b2c3d.incomplete"])
def test_files_of_a_dead_writer_are_removed(
    storage: ModelCache, leave_blob: Callable[..., Path], suffix: str
) -> None:
    orphan = leave_blob(ETAG + suffix)
    assert remove_orphans(storage, {"b" * 64}, QUIET_S) == 8192
    assert not orphan.exists()


@pytest.mark.parametrize("suffix", [".partial", ".journal"])
def test_a_download_that_will_be_resumed_stays(
    storage: ModelCache, leave_blob: Callable[..., Path], suffix: str
) -> None:
    needed = leave_blob(ETAG + suffix)
    assert remove_orphans(storage, {ETAG}, QUIET_S) == 0 and needed.exists()


@pytest.mark.parametrize("suffix", [".partial", ".0a1b2c3d.incomplete"])
def test_a_recently_written_file_stays(
    storage: ModelCache, leave_blob: Callable[..., Path], suffix: str
) -> None:
    recent = leave_blob(ETAG + suffix, age_s=5)
    assert remove_orphans(storage, set(), QUIET_S) == 0 and recent.exists()


def test_a_file_that_huggingface_hub_is_writing_stays(
    storage: ModelCache, leave_blob: Callable[..., Path]
) -> None:
    theirs = leave_blob(f"{ETAG}.0a1b2c3d.incomplete")
    storage.locks.mkdir(parents=True)
    with FileLock(storage.locks / f"{ETAG}.lock"):
        assert remove_orphans(storage, set(), QUIET_S) == 0 and theirs.exists()
    assert remove_orphans(storage, set(), QUIET_S) == 8192


def test_blobs_stay(storage: ModelCache, leave_blob: Callable[..., Path]) -> None:
    blob = leave_blob(ETAG)
    assert remove_orphans(storage, set(), QUIET_S) == 0 and blob.exists()
