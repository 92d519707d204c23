"""Where downloads are kept: bytes, names, leave to write, links."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from checks import disk
from checks.finding import Finding, Refused
from checks.machine import Machine
from checks.machine.filesystem import MANY, look_at
from checks.plan import Plan
from checks.source.file import File
from checks.source.hub import Hub
from checks.source.repository import Repository
from tests import hub

Planner = Callable[..., Plan]
COUNT = 10


@pytest.fixture
def cache(planned: Planner, machine: Machine) -> Callable[..., Finding]:
    """What is said of the cache where ten files are to be fetched, of a machine that is changed so."""

    def check(**changes: object) -> Finding:
        plan = planned()
        files = tuple(File(f"{number}", 1000, here=False) for number in range(COUNT))
        source = replace(plan.repository, folder=None, files=files)
        return disk.check(replace(plan, repository=source), replace(machine, **changes))[1]  # type: ignore[arg-type]

    return check


Cache = Callable[..., Finding]


def test_a_folder_that_is_not_made_yet_is_looked_at_where_it_will_be(tmp_path: Path) -> None:
    seen = look_at(tmp_path / "a" / "b")
    assert (seen.unwritable, seen.links) == ("", True)
    assert seen.bytes.left > 0 and 0 < seen.files.left <= MANY
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no folder that nobody may write in")
def test_where_nothing_can_be_written_the_system_says_why() -> None:
    assert look_at(Path("/proc/self")).unwritable


def test_each_file_takes_two_names_and_all_some_more(cache: Cache) -> None:
    need = disk.EACH * COUNT + disk.BESIDES
    assert cache(inodes=need).ok
    finding = cache(inodes=need - 1)
    assert not finding.ok and finding.mend.startswith("remove 1 files") and "CACHE_DIR" in finding.mend


def test_a_cache_that_is_closed_to_us_is_refused(cache: Cache) -> None:
    finding = cache(unwritable="read-only file system")
    assert finding.have == "read-only file system" and not finding.ok and "CACHE_DIR" in finding.mend


def test_a_file_system_without_links_is_told(cache: Cache) -> None:
    finding = cache(links=False)
    assert finding.ok and "no links" in finding.have
    assert "no links" not in cache().have


def test_what_is_here_already_needs_no_leave_to_write(planned: Planner, machine: Machine) -> None:
    findings = disk.check(planned(), replace(machine, unwritable="permission denied", inodes=0))
    assert [finding.name for finding in findings if finding.ok] == ["disk"]


def test_a_cache_that_cannot_be_made_is_refused_in_words(
    tiny_repo: hub.Repo, look_up: Callable[..., Repository], client: Hub, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused) as caught:
        look_up(hub=replace(client, cache=tmp_path / "file" / "cache"))
    assert (caught.value.finding.name, caught.value.finding.have) == ("cache", "not a directory")
    assert "CACHE_DIR" in caught.value.finding.mend
