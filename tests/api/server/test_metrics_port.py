"""The metrics on their own port."""

import socket

import pytest
import requests

from api.server.metrics_port import serve_metrics
from scripts.loopback import free_port
from tests.timeouts import TIMEOUT_S


def test_metrics_are_shown_and_nothing_else() -> None:
    with serve_metrics(lambda: b"hearth_steps_total 5\n", "127.0.0.1", 0) as port:
        response = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT_S)
        assert (response.status_code, response.text) == (200, "hearth_steps_total 5\n")
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert requests.get(f"http://127.0.0.1:{port}/", timeout=TIMEOUT_S).status_code == 404


def test_the_port_is_free_again_afterwards() -> None:
    with serve_metrics(lambda: b"", "127.0.0.1", free_port()) as port:  # which no other program is given
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)


def test_a_port_that_is_in_use_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupied, pytest.raises(OSError, match="in use"):
        serve_metrics(lambda: b"", "127.0.0.1", occupied.getsockname()[1]).__enter__()
