"""The server as a process: its start, and its shutdown by a signal."""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from api.server.serve import listen, url_of
from tests.api.conftest import read, request
from tests.api.server import scripted_server
from tests.servers.forked_main import FORKSERVER, ForkedProcess
from tests.timeouts import TIMEOUT_S

LONG_DRAIN_S = 10 * TIMEOUT_S  # no test waits for its end
ENDLESS_S = 10 * TIMEOUT_S  # a pause before each token of an answer


class ServedProcess:
    def __init__(self, folder: Path, pause_s: float, drain_s: float, port: int = 0) -> None:
        self.log_file = folder / "log"
        ours, theirs = FORKSERVER.Pipe(duplex=False)
        self.process = ForkedProcess(scripted_server.run, pause_s, drain_s, port, self.log_file, theirs)
        theirs.close()
        try:
            self.url = ours.recv()
        except EOFError:  # it has ended
            self.url = ""

    def connect(self, data: bytes) -> socket.socket:
        port = int(self.url.rpartition(":")[2])
        connection = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        connection.sendall(data)
        return connection

    def stream(self) -> socket.socket:
        """The connection of a response that has started."""
        connection = self.connect(request("POST", "/say", b'{"stream": "sse"}'))
        read(connection, b"200 OK")
        return connection

    def wait_until_generating(self, num_requests: int) -> None:
        response = b""
        while not response.endswith(b'{"server_load":%d}' % num_requests):
            with self.connect(request("GET", "/load")) as connection:
                response = read(connection, b"}")

    def wait_until_draining(self) -> None:
        while "draining" not in self.log_file.read_text():
            time.sleep(0.01)

    def wait_for_exit(self) -> tuple[int, str]:
        return self.process.wait(TIMEOUT_S), self.log_file.read_text()


Start = Callable[..., ServedProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    running: list[ServedProcess] = []

    def one(*settings: Any) -> ServedProcess:
        running.append(ServedProcess(tmp_path, *settings))
        return running[-1]

    yield one
    for each in running:
        each.process.send_signal(signal.SIGKILL)
        each.process.wait(TIMEOUT_S)


@pytest.mark.system("posix")
def test_a_running_stream_is_finished_before_the_process_ends(start: Start) -> None:
    process = start(0.1, LONG_DRAIN_S)
    streams = [process.stream() for _ in range(8)]
    process.process.send_signal(signal.SIGTERM)
    for connection in streams:
        assert read(connection).endswith(b'data: [0,"h"]\n\n\r\n0\r\n\r\n')
    assert process.wait_for_exit()[0] == 0


@pytest.mark.system("posix")
def test_a_draining_server_refuses_requests_and_is_not_ready(start: Start) -> None:
    process = start(ENDLESS_S, LONG_DRAIN_S)
    running = process.stream()
    process.process.send_signal(signal.SIGINT)
    process.wait_until_draining()
    for data in (request("POST", "/say", b"{}"), request("GET", "/health/ready")):
        refused = read(process.connect(data))
        assert refused.startswith(b"HTTP/1.1 503 ") and b"\r\nretry-after: " in refused
        assert b"\r\nconnection: close\r\n" in refused
    assert read(process.connect(request("GET", "/health/live")), b"}").startswith(b"HTTP/1.1 200 ")
    running.close()
    assert process.wait_for_exit()[0] == 0


@pytest.mark.system("posix")
def test_a_response_still_running_after_the_drain_gets_an_error_in_its_dialect(start: Start) -> None:
    process = start(ENDLESS_S, 0.3)
    streamed = process.stream()
    unstreamed = process.connect(request("POST", "/say", b"{}"))
    process.wait_until_generating(2)
    process.process.send_signal(signal.SIGTERM)
    ending = b'data: {"broken":"the server is shutting down: the answer ends here"}\n\n\r\n0\r\n\r\n'
    assert read(streamed).endswith(ending)
    assert read(unstreamed).startswith(b"HTTP/1.1 503 ")
    assert process.wait_for_exit()[0] == 0


@pytest.mark.system("posix")
def test_a_client_that_reads_nothing_does_not_delay_the_exit(start: Start) -> None:
    process = start(0.0, 0.2)
    connection = process.connect(request("POST", "/say", b'{"stream": "sse"}') * 3000)
    time.sleep(0.3)
    process.process.send_signal(signal.SIGTERM)
    code, log = process.wait_for_exit()
    assert code == 0 and "Traceback" not in log, log
    connection.close()


@pytest.mark.system("posix")
def test_a_body_still_arriving_does_not_delay_the_exit(start: Start) -> None:
    process = start(0.0, 0.2)
    head = request("POST", "/say", b"", "Expect: 100-continue").replace(b"Length: 0", b"Length: 2")
    connection = process.connect(head)
    read(connection, b"100 Continue\r\n\r\n")
    connection.sendall(b"{")
    process.process.send_signal(signal.SIGTERM)
    code, log = process.wait_for_exit()
    assert code == 0 and "Traceback" not in log, log
    assert read(connection) == b"", "it has waited for the body"
    connection.close()


@pytest.mark.system("posix")
def test_the_second_signal_ends_the_process_at_once(start: Start) -> None:
    process = start(ENDLESS_S, LONG_DRAIN_S)
    with process.stream():
        process.process.send_signal(signal.SIGTERM)
        process.wait_until_draining()
        process.process.send_signal(signal.SIGTERM)
        assert process.wait_for_exit()[0] == -signal.SIGTERM


@pytest.mark.system("posix")
def test_an_idle_server_ends_at_once(start: Start) -> None:
    process = start(0.0, LONG_DRAIN_S)
    kept_alive = process.connect(request("GET", "/health"))
    read(kept_alive, b"}")
    process.process.send_signal(signal.SIGTERM)
    assert process.wait_for_exit()[0] == 0


def test_a_port_in_use_is_reported_in_one_line(start: Start) -> None:
    with listen("127.0.0.1", 0) as occupied:
        port = occupied.getsockname()[1]
        code, log = start(0.0, 1.0, port).wait_for_exit()
    assert code == 1
    assert log.count("\n") == 1 and f"port {port}" in log and "Traceback" not in log


@pytest.mark.system("posix")
def test_the_server_logs_its_address(start: Start) -> None:
    process = start(0.0, 1.0)
    process.process.send_signal(signal.SIGTERM)
    assert f"serving on {process.url}" in process.wait_for_exit()[1]


@pytest.mark.skipif(not os.path.exists("/proc/net/if_inet6"), reason="this machine has no IPv6")
def test_an_ipv6_address_is_listened_on() -> None:
    with listen("::1", 0) as listener:
        assert listener.family == socket.AF_INET6


def test_a_url_needs_no_unix_sockets_which_windows_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    with listen("127.0.0.1", 0) as listener:
        monkeypatch.delattr(socket, "AF_UNIX")
        assert url_of(listener, "http") == f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.system("posix")
def test_a_unix_socket_takes_the_place_of_one_that_was_left_behind(tmp_path: Path) -> None:
    path = tmp_path / "server.sock"
    for _ in range(2):
        with listen(str(path), 0), socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
    assert path.is_socket()
