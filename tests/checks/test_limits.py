"""Limits of containers and shells: the tightest one counts, and is named."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from checks import connections
from checks.machine.limits import Bound, container_bounds, ram

Kernel = Callable[..., None]


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    """Writes the kernel's files of a group, "__" in their names for a dot; `own` says which group is ours."""

    def write(group: str, **files: str) -> None:
        folder = tmp_path / "cgroup" / group
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name.replace("__", ".")).write_text(text + "\n")

    return write


@pytest.fixture
def tightest(tmp_path: Path) -> Callable[[str], Bound | None]:
    """The tightest of what the kernel's files say, for a process whose groups are these lines."""

    def bound(lines: str) -> Bound | None:
        (tmp_path / "own").write_text(lines)
        found = container_bounds(tmp_path / "cgroup", tmp_path / "own")
        return min(found, key=lambda bound: bound.left, default=None)

    return bound


Tightest = Callable[[str], Bound | None]


def test_of_all_groups_above_us_the_tightest_counts(kernel: Kernel, tightest: Tightest) -> None:
    kernel("a", memory__max="1000", memory__current="600", memory__stat="anon 5\ninactive_file 100")
    kernel("a/b", memory__max="max", memory__current="50")
    kernel("a/b/c", memory__max="900", memory__current="50")
    assert tightest("0::/a/b/c\n") == Bound(500, "the container's limit of 1.0 kB")


def test_a_group_at_which_the_kernel_slows_us_down_is_a_limit_too(kernel: Kernel, tightest: Tightest) -> None:
    kernel("a", memory__max="3000", memory__high="2000", memory__current="600")
    assert tightest("0::/a\n") == Bound(1400, "the container's limit of 2.0 kB")


def test_groups_of_the_first_version_are_nested_too(kernel: Kernel, tightest: Tightest) -> None:
    none = str(2**63 - 4096)
    kernel("memory", memory__limit_in_bytes=none, memory__usage_in_bytes="9000")
    kernel("memory/a", memory__limit_in_bytes="1000", memory__usage_in_bytes="300")
    kernel("memory/a/b", memory__limit_in_bytes="5000", memory__usage_in_bytes="200")
    assert tightest("7:cpu,cpuacct:/x\n4:memory:/a/b\n") == Bound(700, "the container's limit of 1.0 kB")


def test_in_a_container_that_sees_only_its_own_group_it_is_found_at_the_root(
    kernel: Kernel, tightest: Tightest
) -> None:
    kernel(
        "memory",
        memory__limit_in_bytes="1000",
        memory__usage_in_bytes="300",
        memory__stat="total_inactive_file 50",
    )
    assert tightest("4:memory:/docker/0123\n") == Bound(750, "the container's limit of 1.0 kB")


def test_where_both_versions_are_there_the_second_is_in_a_folder_of_its_own(
    kernel: Kernel, tightest: Tightest
) -> None:
    kernel("unified/a", memory__max="1000", memory__current="600")
    kernel("memory", memory__limit_in_bytes="5000", memory__usage_in_bytes="1")
    assert tightest("1:memory:/\n0::/a\n") == Bound(400, "the container's limit of 1.0 kB")


def test_without_limits_there_are_none(kernel: Kernel, tightest: Tightest) -> None:
    kernel("a", memory__max="max", memory__high="max", memory__current="600")
    kernel("memory", memory__limit_in_bytes=str(2**63 - 4096), memory__usage_in_bytes="1")
    assert tightest("0::/a\n4:memory:/\n") is None


def test_a_process_without_groups_has_none(tmp_path: Path) -> None:
    assert list(container_bounds(tmp_path / "none", tmp_path / "no file")) == []


@pytest.mark.parametrize(("name", "command"), [("RLIMIT_AS", "ulimit -v"), ("RLIMIT_DATA", "ulimit -d")])
def test_what_the_shell_allows_is_a_limit(name: str, command: str) -> None:
    program = (
        f"import resource; resource.setrlimit(resource.{name}, (3 * 10**9,) * 2)\n"
        "from checks.machine.limits import ram; print(ram())"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert f"what='{command}, 3.0 GB'" in told
    assert 0 < int(told.partition("left=")[2].partition(",")[0]) < 3 * 10**9


def test_this_machine_has_memory() -> None:
    assert ram().left > 0


def test_files_that_may_be_open_are_raised_to_what_is_allowed() -> None:
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300))\n"
        "from checks.machine.limits import open_files, raise_open_files\n"
        "told = open_files(); raise_open_files()\n"
        "print(told, resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert told == "300 (300, 300)\n"


def test_every_request_needs_its_connections() -> None:
    assert connections.check(128, 512).ok
    finding = connections.check(128, 511)
    assert not finding.ok
    assert finding.mend == "ulimit -n 512 before the start, or MAX_CONCURRENT_REQUESTS = 127"
    assert connections.check(127, 511).ok
