"""Free disk space is checked before the first byte and while bytes are written; spare bytes stay free."""

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hub.client import Hub
from hub.download.disk_guard import DiskGuard
from hub.repository import Repository
from inference.finding import Refused
from tests.fakes import fake_hub
from tests.hub.download.conftest import SIZE, WEIGHTS

FetchModel = Callable[..., Path]
SPARE = 1000


def disk_guard(*free: int, step: int = 10**9) -> DiskGuard:
    """A disk that reports these numbers of free bytes, one for each look."""
    looks = iter(free)
    return DiskGuard(
        Path("/"), spare_bytes=SPARE, step_bytes=step, measure_free_bytes=lambda path: next(looks)
    )


def test_a_download_that_fits_exactly_is_accepted() -> None:
    disk_guard(5000 + SPARE).check(0, 5000)


def test_a_disk_short_by_one_byte_is_refused() -> None:
    with pytest.raises(Refused) as caught:
        disk_guard(5000 + SPARE - 1).check(0, 5000)
    assert caught.value.finding.fix == "free 1 byte, or set CACHE_DIR to a folder on a larger disk"


def test_free_space_is_measured_once_per_step() -> None:
    watched = disk_guard(10_000, 9_000, step=100)
    for written in (0, 50, 99, 100, 150):
        watched.check(written, 5000)
    with pytest.raises(StopIteration):
        watched.check(200, 5000)


def test_a_fetch_that_lacks_one_byte_of_disk_is_not_started(
    fake: fake_hub.FakeHub, repo: fake_hub.Repo, fetch_model: FetchModel, look_up: Callable[..., Repository]
) -> None:
    source = look_up("acme/large")
    with pytest.raises(Refused) as caught:
        fetch_model(source, disk_guard=disk_guard(source.bytes_to_fetch + SPARE - 1))
    assert caught.value.finding.name == "disk"
    assert fake.gets_of(WEIGHTS) == []


def test_a_disk_that_fills_up_ends_the_fetch_and_keeps_the_fetched_bytes(
    fake: fake_hub.FakeHub, repo: fake_hub.Repo, fetch_model: FetchModel, is_complete: Callable[[Path], bool]
) -> None:
    filling = disk_guard(SIZE * 2, SIZE * 2, 0, step=200_000)
    with pytest.raises(Refused) as caught:
        fetch_model(disk_guard=filling, num_connections=1)
    assert caught.value.finding.fix.partition("start again: ")[2].endswith("kB are kept")
    fake.requests.clear()
    assert is_complete(fetch_model())
    assert sum(request.sent for request in fake.gets_of(WEIGHTS)) < SIZE


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of half a megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", folder]).returncode:
        pytest.skip("needs to mount a file system")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_small_disk_is_refused_before_the_first_byte(
    fake: fake_hub.FakeHub, repo: fake_hub.Repo, client: Hub, fetch_model: FetchModel, small_disk: Path
) -> None:
    with pytest.raises(Refused) as caught:
        fetch_model(disk_guard=DiskGuard(small_disk, spare_bytes=0))
    assert caught.value.finding.name == "disk" and fake.gets_of(WEIGHTS) == []


def test_a_disk_that_is_full_despite_its_report_ends_the_fetch(
    repo: fake_hub.Repo,
    client: Hub,
    small_disk: Path,
    look_up: Callable[..., Repository],
    fetch_model: FetchModel,
) -> None:
    cramped = replace(client, cache_dir=small_disk)
    with pytest.raises(Refused) as caught:
        fetch_model(look_up("acme/large", hub=cramped), cache=small_disk, disk_guard=disk_guard(*[10**9] * 9))
    finding = caught.value.finding
    assert finding.name == "disk" and "kB are kept" in finding.fix
