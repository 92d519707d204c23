"""The download folder: free bytes, free inodes, permission to write, links."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from checks.machine import Machine
from checks.memory.plan import Plan
from checks.resources import disk
from hub.client import Hub
from hub.repository import RepoFile, Repository
from inference.finding import Finding, Refused
from inference.process.filesystem import SPARE_BYTES, UNCOUNTED, inspect_folder
from tests.fakes import fake_hub

Planner = Callable[..., Plan]
COUNT = 10


@pytest.fixture
def cache(planned: Planner, machine: Machine) -> Callable[..., Finding]:
    """The finding about the cache with ten files to fetch, on a machine with these changes."""

    def check(**changes: object) -> Finding:
        plan = planned()
        files = tuple(RepoFile(f"{number}", 1000, is_local=False) for number in range(COUNT))
        source = replace(plan.repository, folder=None, files=files)
        return disk.check(replace(plan, repository=source), replace(machine, **changes))[1]  # type: ignore[arg-type]

    return check


Cache = Callable[..., Finding]


def test_a_folder_that_does_not_exist_yet_is_checked_at_its_parent(tmp_path: Path) -> None:
    result = inspect_folder(tmp_path / "a" / "b")
    assert (result.write_error, result.has_links) == ("", True)
    assert result.free_bytes > 0 and 0 < result.free_files <= UNCOUNTED
    assert os.listdir(tmp_path) == []


@pytest.mark.system("linux")  # whose /proc refuses every write
def test_an_unwritable_folder_gives_the_systems_reason() -> None:
    assert inspect_folder(Path("/proc/self")).write_error


def test_each_file_needs_several_inodes_and_all_some_more(cache: Cache) -> None:
    need = disk.FILES_PER_DOWNLOAD * COUNT + disk.EXTRA_FILES
    assert cache(inodes=need).ok
    finding = cache(inodes=need - 1)
    assert not finding.ok and finding.fix.startswith("remove 1 file from") and "CACHE_DIR" in finding.fix


def test_an_unwritable_cache_is_refused(cache: Cache) -> None:
    finding = cache(write_error="read-only file system")
    assert finding.have == "read-only file system" and not finding.ok and "CACHE_DIR" in finding.fix


def test_a_file_system_without_links_is_reported(cache: Cache) -> None:
    finding = cache(has_links=False)
    assert finding.ok and "no symbolic links" in finding.have
    assert "no symbolic links" not in cache().have


def test_local_files_need_no_permission_to_write(planned: Planner, machine: Machine) -> None:
    findings = disk.check(planned(), replace(machine, write_error="permission denied", inodes=0))
    assert [finding.name for finding in findings if finding.ok] == ["disk"]


def test_a_cache_that_cannot_be_created_is_refused_with_the_reason(
    tiny_repo: fake_hub.Repo, look_up: Callable[..., Repository], client: Hub, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused) as caught:
        look_up(hub=replace(client, cache_dir=tmp_path / "file" / "cache"))
    assert (caught.value.finding.name, caught.value.finding.have) == ("cache", "not a directory")
    assert "CACHE_DIR" in caught.value.finding.fix


def test_packed_weights_are_kept_where_the_disk_has_room(
    planned: Planner, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "MIN_BYTES", 0)
    monkeypatch.setattr(disk, "free_disk_bytes", lambda _: 2 * SPARE_BYTES)
    plan = planned(device="cpu")
    (finding,) = disk.check_weight_cache(tmp_path, plan, machine)
    assert finding.ok and finding.have == f"2.0 GB free in {tmp_path}"
    monkeypatch.setattr(disk, "free_disk_bytes", lambda _: SPARE_BYTES)
    (finding,) = disk.check_weight_cache(tmp_path, plan, machine)
    assert finding.ok and finding.have.endswith("weights that are not kept yet are packed at each start")
    assert disk.check_weight_cache(None, plan, machine) == []
    assert disk.check_weight_cache(tmp_path, replace(plan, device="cuda"), machine) == []


def test_files_to_fetch_on_the_same_disk_come_first(
    planned: Planner, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "MIN_BYTES", 0)
    plan = planned(device="cpu")
    files = (RepoFile("model.safetensors", SPARE_BYTES, is_local=False),)
    plan = replace(plan, repository=replace(plan.repository, folder=None, files=files))
    machine = replace(machine, disk=2 * SPARE_BYTES)
    monkeypatch.setattr(disk, "free_disk_bytes", lambda _: machine.disk)
    (finding,) = disk.check_weight_cache(tmp_path, plan, machine)
    assert finding.have.startswith("1.0 GB free") and "at each start" in finding.have
