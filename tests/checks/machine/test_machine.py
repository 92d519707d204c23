"""What a machine has: disk space, free ports, memory."""

import socket
from pathlib import Path

from checks import machine
from inference.process import filesystem


def test_free_disk_is_known_for_a_folder_that_does_not_exist_yet(tmp_path: Path) -> None:
    assert filesystem.free_disk_bytes(tmp_path / "a" / "b") > 0


def test_a_port_in_use_is_reported() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert "in use" in machine.find_port_error("127.0.0.1", other.getsockname()[1])


def test_a_free_port_gives_no_error() -> None:
    assert machine.find_port_error("127.0.0.1", 0) == ""


def test_an_address_of_another_machine_gives_an_error() -> None:
    assert machine.find_port_error("192.0.2.1", 0) != ""


def test_this_machine_has_disk_and_memory(tmp_path: Path) -> None:
    this_machine = machine.inspect(cache_dir=tmp_path, host="127.0.0.1", port=0)
    assert this_machine.disk > 0 and 0 < this_machine.ram < 2**63
