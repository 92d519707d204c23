"""What a machine has: disks, ports, and what it says of itself."""

import socket
from pathlib import Path

from checks import machine
from checks.machine import filesystem


def test_disk_is_told_for_a_folder_that_is_not_made_yet(tmp_path: Path) -> None:
    assert filesystem.free_disk(tmp_path / "a" / "b") > 0


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
