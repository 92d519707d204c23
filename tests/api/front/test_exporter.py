"""The figures on a port of their own."""

import socket

import pytest
import requests

from api.front.exporter import exporting


def test_metrics_are_shown_and_nothing_else() -> None:
    with exporting(lambda: b"hearth_steps_total 5\n", "127.0.0.1", 0) as port:
        answer = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=5)
        assert (answer.status_code, answer.text) == (200, "hearth_steps_total 5\n")
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert requests.get(f"http://127.0.0.1:{port}/", timeout=5).status_code == 404


def test_the_port_is_free_again_afterwards() -> None:
    with exporting(lambda: b"", "127.0.0.1", 0) as port:
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        exporting(lambda: b"", "127.0.0.1", taken.getsockname()[1]).__enter__()
