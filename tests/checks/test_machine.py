"""What a machine has: containers' limits, disks, ports."""

import socket
from pathlib import Path

import pytest

from checks import machine


def kernel(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")


@pytest.mark.parametrize(("share", "free"), [(1.0, 60), (0.8, 60), (0.5, 50)])
def test_a_gpu_has_no_more_than_the_share_of_it_that_may_be_used(share: float, free: int) -> None:
    assert machine.capped(machine.Gpu("one", free=60, total=100), share).free == free


def test_the_tightest_cgroup_above_us_counts(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("0::/outer/inner\n")
    kernel(
        tmp_path / "outer",
        memory__max="1000",
        memory__current="600",
        memory__stat="anon 5\ninactive_file 100",
    )
    kernel(tmp_path / "outer" / "inner", memory__max="max", memory__current="50")
    assert min(machine.container_limits(tmp_path, own)) == 500


def test_the_old_cgroups_limit_counts(tmp_path: Path) -> None:
    files = {"memory__limit_in_bytes": "1000", "memory__usage_in_bytes": "300"}
    kernel(tmp_path / "memory", **files, memory__stat="total_inactive_file 50")
    assert min(machine.container_limits(tmp_path, tmp_path / "none")) == 750


def test_no_container_sets_no_limit(tmp_path: Path) -> None:
    assert list(machine.container_limits(tmp_path, tmp_path / "none")) == [2**63]


def test_disk_is_told_for_a_folder_that_is_not_made_yet(tmp_path: Path) -> None:
    assert machine.free_disk(tmp_path / "a" / "b") > 0


def test_a_port_in_use_is_taken() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert "in use" in machine.taken("127.0.0.1", other.getsockname()[1])


def test_a_free_port_is_not() -> None:
    assert machine.taken("127.0.0.1", 0) == ""


def test_an_address_of_another_machine_is_none_to_listen_on() -> None:
    assert machine.taken("192.0.2.1", 0) != ""


def test_this_machine_has_something_of_everything(tmp_path: Path) -> None:
    seen = machine.look(cache=tmp_path, host="127.0.0.1", port=0)
    assert seen.disk > 0 and 0 < seen.ram < 2**63
