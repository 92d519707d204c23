"""The disk: asked before the first byte and while bytes are written; what is spare stays free."""

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from checks.fetch.room import Room
from checks.finding import Refused
from checks.source.hub import Hub
from checks.source.repository import Repository
from tests import hub
from tests.checks.fetch.conftest import SIZE, WEIGHTS

Bring = Callable[..., Path]
SPARE = 1000


def room(*free: int, step: int = 10**9) -> Room:
    """A disk on which `free` bytes are free, one number for each look."""
    looks = iter(free)
    return Room(Path("/"), spare=SPARE, step=step, free=lambda path: next(looks))


def test_what_fits_to_the_byte_fits() -> None:
    room(5000 + SPARE).watch(0, 5000)


def test_a_disk_short_by_one_byte_is_refused() -> None:
    with pytest.raises(Refused) as caught:
        room(5000 + SPARE - 1).watch(0, 5000)
    assert caught.value.finding.mend == "free 1 bytes, or set CACHE_DIR to a folder on a larger disk"


def test_it_is_looked_at_once_in_a_step() -> None:
    watched = room(10_000, 9_000, step=100)
    for written in (0, 50, 99, 100, 150):
        watched.watch(written, 5000)
    with pytest.raises(StopIteration):
        watched.watch(200, 5000)


def test_a_disk_short_by_one_byte_is_not_begun(
    fake: hub.Hub, repo: hub.Repo, bring: Bring, look_up: Callable[..., Repository]
) -> None:
    source = look_up("acme/large")
    with pytest.raises(Refused) as caught:
        bring(source, room=room(source.to_fetch + SPARE - 1))
    assert caught.value.finding.name == "disk"
    assert fake.got(WEIGHTS) == []


def test_a_disk_that_others_fill_ends_the_fetch_and_keeps_what_came(
    fake: hub.Hub, repo: hub.Repo, bring: Bring, whole: Callable[[Path], bool]
) -> None:
    filling = room(SIZE * 2, SIZE * 2, 0, step=200_000)
    with pytest.raises(Refused) as caught:
        bring(room=filling, streams=1)
    assert caught.value.finding.mend.partition("start again: ")[2].endswith("kB are kept")
    fake.requests.clear()
    assert whole(bring())
    assert sum(request.sent for request in fake.got(WEIGHTS)) < SIZE


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
    fake: hub.Hub, repo: hub.Repo, client: Hub, bring: Bring, small_disk: Path
) -> None:
    with pytest.raises(Refused) as caught:
        bring(room=Room(small_disk, spare=0))
    assert caught.value.finding.name == "disk" and fake.got(WEIGHTS) == []


def test_a_disk_that_is_full_though_it_told_otherwise_ends_the_fetch(
    repo: hub.Repo,
    client: Hub,
    small_disk: Path,
    look_up: Callable[..., Repository],
    bring: Bring,
) -> None:
    cramped = replace(client, cache=small_disk)
    with pytest.raises(Refused) as caught:
        bring(look_up("acme/large", hub=cramped), cache=small_disk, room=room(*[10**9] * 9))
    finding = caught.value.finding
    assert finding.name == "disk" and "kB are kept" in finding.mend
