"""Limits of containers and shells: the tightest one applies and is named."""

import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from checks.machine import limits
from checks.machine.limits import RESOURCE_LIMITS, MemoryLimit, available_ram, container_limits

ROOT = Path(__file__).parents[3]
Kernel = Callable[..., None]


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    """Writes the cgroup files of a group; "__" in a file's name stands for a dot."""

    def write(group: str, **files: str) -> None:
        folder = tmp_path / "cgroup" / group
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name.replace("__", ".")).write_text(text + "\n")

    return write


@pytest.fixture
def tightest(tmp_path: Path) -> Callable[[str], MemoryLimit | None]:
    """The tightest bound in the cgroup files, for a process whose /proc/self/cgroup has these lines."""

    def bound(lines: str) -> MemoryLimit | None:
        (tmp_path / "own").write_text(lines)
        limits = container_limits(tmp_path / "cgroup", tmp_path / "own")
        return min(limits, key=lambda bound: bound.remaining, default=None)

    return bound


Tightest = Callable[[str], MemoryLimit | None]


def test_the_tightest_limit_of_all_parent_groups_applies(kernel: Kernel, tightest: Tightest) -> None:
    kernel("a", memory__max="1000", memory__current="600", memory__stat="anon 5\ninactive_file 100")
    kernel("a/b", memory__max="max", memory__current="50")
    kernel("a/b/c", memory__max="900", memory__current="50")
    assert tightest("0::/a/b/c\n") == MemoryLimit(500, "the container's limit of 1.0 kB")


def test_memory_high_is_a_limit_too(kernel: Kernel, tightest: Tightest) -> None:
    kernel("a", memory__max="3000", memory__high="2000", memory__current="600")
    assert tightest("0::/a\n") == MemoryLimit(1400, "the container's limit of 2.0 kB")


def test_groups_of_cgroup_v1_are_nested_too(kernel: Kernel, tightest: Tightest) -> None:
    none = str(2**63 - 4096)
    kernel("memory", memory__limit_in_bytes=none, memory__usage_in_bytes="9000")
    kernel("memory/a", memory__limit_in_bytes="1000", memory__usage_in_bytes="300")
    kernel("memory/a/b", memory__limit_in_bytes="5000", memory__usage_in_bytes="200")
    assert tightest("7:cpu,cpuacct:/x\n4:memory:/a/b\n") == MemoryLimit(
        700, "the container's limit of 1.0 kB"
    )


def test_in_a_container_that_sees_only_its_own_group_the_limit_is_at_the_root(
    kernel: Kernel, tightest: Tightest
) -> None:
    kernel(
        "memory",
        memory__limit_in_bytes="1000",
        memory__usage_in_bytes="300",
        memory__stat="total_inactive_file 50",
    )
    assert tightest("4:memory:/docker/0123\n") == MemoryLimit(750, "the container's limit of 1.0 kB")


def test_with_both_cgroup_versions_v2_is_in_the_folder_unified(kernel: Kernel, tightest: Tightest) -> None:
    kernel("unified/a", memory__max="1000", memory__current="600")
    kernel("memory", memory__limit_in_bytes="5000", memory__usage_in_bytes="1")
    assert tightest("1:memory:/\n0::/a\n") == MemoryLimit(400, "the container's limit of 1.0 kB")


def test_unlimited_groups_give_no_bound(kernel: Kernel, tightest: Tightest) -> None:
    kernel("a", memory__max="max", memory__high="max", memory__current="600")
    kernel("memory", memory__limit_in_bytes=str(2**63 - 4096), memory__usage_in_bytes="1")
    assert tightest("0::/a\n4:memory:/\n") is None


def test_a_process_without_groups_has_no_bound(tmp_path: Path) -> None:
    assert list(container_limits(tmp_path / "none", tmp_path / "no file")) == []


def run_here(program: str) -> str:
    """What a new process prints that loads the limits alone: its package imports torch."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.system("linux")
@pytest.mark.parametrize(("name", "command"), [("RLIMIT_AS", "ulimit -v"), ("RLIMIT_DATA", "ulimit -d")])
def test_a_ulimit_is_a_limit(name: str, command: str) -> None:
    program = (
        f"import resource; resource.setrlimit(resource.{name}, (3 * 10**9,) * 2)\n"
        f"import runpy; print(runpy.run_path({limits.__file__!r})['available_ram']())"
    )
    output = run_here(program)
    assert f"limited_by='{command}, 3.0 GB'" in output
    unfilled = next(each for limit, *_, each in RESOURCE_LIMITS if limit == name)
    assert 0 < int(output.partition("remaining=")[2].partition(",")[0]) < 3 * 10**9 - unfilled


def test_this_machine_has_memory() -> None:
    assert available_ram().remaining > 0


@pytest.mark.parametrize(("platform", "limit"), [("linux", 65_536), ("darwin", 10_240)])
def test_no_more_open_files_are_requested_than_the_system_grants(
    monkeypatch: pytest.MonkeyPatch, platform: str, limit: int
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert runpy.run_path(str(limits.__file__))["MAX_OPEN_FILES"] == limit


@pytest.mark.system("posix")
def test_the_open_file_limit_is_raised_to_the_maximum() -> None:
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300))\n"
        f"import runpy; limits = runpy.run_path({limits.__file__!r})\n"
        "limit = limits['max_open_files'](); limits['raise_open_file_limit']()\n"
        "print(limit, resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    output = run_here(program)
    assert output == "300 (300, 300)\n"
