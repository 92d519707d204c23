"""What a machine has: disk space, free ports, memory."""

import socket
from pathlib import Path

import pytest

from checks import machine
from checks.resources.network import check_port
from inference.process import filesystem
from inference.process.listen_address import MAX_PATH_BYTES


def test_free_disk_is_known_for_a_folder_that_does_not_exist_yet(tmp_path: Path) -> None:
    assert filesystem.free_disk_bytes(tmp_path / "a" / "b") > 0


def test_a_port_in_use_is_reported() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert "in use" in machine.find_port_error("127.0.0.1", other.getsockname()[1])


def test_a_free_port_gives_no_error() -> None:
    assert machine.find_port_error("127.0.0.1", 0) == ""


@pytest.mark.system("posix")
def test_a_path_that_is_too_long_for_a_unix_socket_is_refused(tmp_path: Path) -> None:
    assert machine.find_port_error(str(tmp_path / "1.sock"), 0) == ""
    error = machine.find_port_error(str(tmp_path / f"{'x' * 107}.sock"), 0)
    assert error == f"its path has more than {MAX_PATH_BYTES} bytes"
    assert check_port("x.sock", 0, error).fix == "set HOST to a shorter path"


def test_an_address_of_another_machine_gives_an_error() -> None:
    assert machine.find_port_error("192.0.2.1", 0) != ""


def test_this_machine_has_disk_and_memory(tmp_path: Path) -> None:
    this_machine = machine.inspect(cache_dir=tmp_path, host="127.0.0.1", port=0)
    assert this_machine.disk > 0 and 0 < this_machine.ram < 2**63
