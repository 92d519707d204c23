"""Free ports of this machine."""

import socket

import pytest

from scripts import loopback
from scripts.loopback import HOST, free_port


def test_a_port_that_is_used_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HOST, free_port())) as used:
        port = used.getsockname()[1]
        free = next(each for each in iter(free_port, 0) if each != port)
        monkeypatch.setattr(loopback, "PORTS", (port, free))
        assert {free_port() for _ in range(20)} == {free}
