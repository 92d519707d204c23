"""The server as a process: how it begins, and how a signal ends it."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from api.front.serve import listen
from tests.api.conftest import read, request

SCRIPT = """
import logging, sys
from api import create_app
from api.front.serve import serve
from api.settings import AppSettings
from tests.fake_backend import FakeBackend, say
from tests.plain_dialect import routes
pause, drain, port = map(float, sys.argv[1:])
logging.basicConfig(level="INFO")
backend = FakeBackend(say(*"abcdefgh", pause_s=pause))
app = create_app(backend, AppSettings())
app.register_blueprint(routes(backend))
sys.exit(serve(app, backend, host="127.0.0.1", port=int(port), drain_seconds=drain, max_body=1000,
               on_ready=lambda front: print(front.url, flush=True)))
"""


class Process:
    def __init__(self, pause_s: float, drain_s: float, port: int = 0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(pause_s), str(drain_s), str(port)],
            cwd=Path(__file__).parents[3],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout
        self.url = self.process.stdout.readline().strip()

    def connect(self, sent: bytes) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", int(self.url.rpartition(":")[2])), timeout=10)
        connection.sendall(sent)
        return connection

    def stream(self) -> socket.socket:
        """An answer that has begun."""
        connection = self.connect(request("POST", "/say", b'{"stream": "sse"}'))
        read(connection, b"200 OK")
        return connection

    def ends(self, within_s: float = 5.0) -> tuple[int, str]:
        _, log = self.process.communicate(timeout=within_s)
        return self.process.returncode, log


Start = Callable[..., Process]


@pytest.fixture
def start() -> Iterator[Start]:
    running: list[Process] = []

    def one(*settings: Any) -> Process:
        running.append(Process(*settings))
        return running[-1]

    yield one
    for each in running:
        each.process.kill()
        each.process.wait()


def test_a_running_stream_is_finished_before_the_process_ends(start: Start) -> None:
    process = start(0.1, 5.0)
    streams = [process.stream() for _ in range(8)]
    process.process.send_signal(signal.SIGTERM)
    for connection in streams:
        assert read(connection).endswith(b'data: [0,"h"]\n\n\r\n0\r\n\r\n')
    ended = time.monotonic()
    assert process.ends()[0] == 0
    assert time.monotonic() - ended < 3.0, "it waited for the end of the drain"


def test_a_draining_server_takes_nothing_new_and_is_not_ready(start: Start) -> None:
    process = start(0.2, 5.0)
    running = process.stream()
    process.process.send_signal(signal.SIGINT)
    time.sleep(0.1)
    for sent in (request("POST", "/say", b"{}"), request("GET", "/health/ready")):
        refused = read(process.connect(sent))
        assert refused.startswith(b"HTTP/1.1 503 ") and b"\r\nretry-after: " in refused
        assert b"\r\nconnection: close\r\n" in refused
    assert read(process.connect(request("GET", "/health/live")), b"}").startswith(b"HTTP/1.1 200 ")
    assert b'"h"' in read(running)
    assert process.ends()[0] == 0


def test_what_outlives_the_drain_is_ended_in_its_dialect(start: Start) -> None:
    process = start(1.0, 0.3)
    streamed = process.stream()
    whole = process.connect(request("POST", "/say", b"{}"))
    time.sleep(0.1)
    begun = time.monotonic()
    process.process.send_signal(signal.SIGTERM)
    ending = b'data: {"broken":"the server is shutting down: the answer ends here"}\n\n\r\n0\r\n\r\n'
    assert read(streamed).endswith(ending)
    assert read(whole).startswith(b"HTTP/1.1 503 ")
    assert process.ends()[0] == 0
    assert time.monotonic() - begun < 4.0, "the whole answer takes 8 s"


def test_a_reader_who_reads_nothing_cannot_hold_the_process(start: Start) -> None:
    process = start(0.0, 0.2)
    connection = process.connect(request("POST", "/say", b'{"stream": "sse"}') * 3000)
    time.sleep(0.3)
    process.process.send_signal(signal.SIGTERM)
    code, log = process.ends(2.0)
    assert code == 0 and "Traceback" not in log, log
    connection.close()


def test_a_body_still_arriving_cannot_hold_the_process(start: Start) -> None:
    process = start(0.0, 0.2)
    connection = process.connect(request("POST", "/say", b"{").replace(b"Length: 1", b"Length: 2"))
    time.sleep(0.1)
    process.process.send_signal(signal.SIGTERM)
    code, log = process.ends(2.0)
    assert code == 0 and "Traceback" not in log, log
    connection.close()


def test_the_second_signal_ends_the_process_at_once(start: Start) -> None:
    process = start(1.0, 60.0)
    with process.stream():
        process.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        process.process.send_signal(signal.SIGTERM)
        assert process.ends(1.0)[0] == -signal.SIGTERM


def test_an_idle_server_ends_at_once(start: Start) -> None:
    process = start(0.0, 60.0)
    kept_alive = process.connect(request("GET", "/health"))
    read(kept_alive, b"}")
    begun = time.monotonic()
    process.process.send_signal(signal.SIGTERM)
    assert process.ends()[0] == 0
    assert time.monotonic() - begun < 3.0, "it waited for a connection that asks nothing"


def test_a_port_in_use_is_one_clear_line(start: Start) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        code, log = start(0.0, 1.0, port).ends()
    assert code == 1
    assert log.count("\n") == 1 and f"port {port}" in log and "Traceback" not in log


def test_the_server_says_where_it_is(start: Start) -> None:
    process = start(0.0, 1.0)
    process.process.send_signal(signal.SIGTERM)
    assert f"serving on {process.url}" in process.ends()[1]


@pytest.mark.skipif(not os.path.exists("/proc/net/if_inet6"), reason="no IPv6 here")
def test_an_ipv6_address_is_listened_on() -> None:
    with listen("::1", 0) as listener:
        assert listener.family == socket.AF_INET6
