"""What dead downloads left is removed; what may be alive is not."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from checks.fetch.orphans import reclaim
from checks.source.cache import Storage

ETAG = "a" * 64


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    made = Storage(tmp_path / "models--acme--large")
    made.blobs.mkdir(parents=True)
    return made


@pytest.fixture
def left(storage: Storage) -> Callable[..., Path]:
    """A file of an hour ago among the blobs."""

    def leave(name: str, age_s: float = 3600) -> Path:
        path = storage.blobs / name
        path.write_bytes(bytes(8192))
        os.utime(path, (time.time() - age_s,) * 2)
        return path

    return leave


@pytest.mark.parametrize("suffix", [".partial", ".journal", ".incomplete", ".0a1b2c3d.incomplete"])
def test_what_a_dead_writer_left_is_removed(storage: Storage, left: Callable[..., Path], suffix: str) -> None:
    orphan = left(ETAG + suffix)
    assert reclaim(storage, {"b" * 64}) == 8192
    assert not orphan.exists()


@pytest.mark.parametrize("suffix", [".partial", ".journal"])
def test_what_will_be_taken_up_again_stays(storage: Storage, left: Callable[..., Path], suffix: str) -> None:
    wanted = left(ETAG + suffix)
    assert reclaim(storage, {ETAG}) == 0 and wanted.exists()


@pytest.mark.parametrize("suffix", [".partial", ".0a1b2c3d.incomplete"])
def test_what_was_written_to_lately_stays(storage: Storage, left: Callable[..., Path], suffix: str) -> None:
    lately = left(ETAG + suffix, age_s=5)
    assert reclaim(storage, set()) == 0 and lately.exists()


def test_what_huggingface_hub_is_writing_stays(storage: Storage, left: Callable[..., Path]) -> None:
    theirs = left(f"{ETAG}.0a1b2c3d.incomplete")
    storage.locks.mkdir(parents=True)
    with FileLock(storage.locks / f"{ETAG}.lock"):
        assert reclaim(storage, set()) == 0 and theirs.exists()
    assert reclaim(storage, set()) == 8192


def test_blobs_stay(storage: Storage, left: Callable[..., Path]) -> None:
    blob = left(ETAG)
    assert reclaim(storage, set()) == 0 and blob.exists()
