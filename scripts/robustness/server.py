"""A server of the demo model for one measurement: its process, requests to it, and what it keeps."""

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import psutil

from scripts.loopback import HOST, free_port, wait_until_ready

READY_TIMEOUT_S = 180.0
TIMEOUT_S = 60.0
IDLE_TIMEOUT_S = 60.0
TRIM_S = 7.0  # the server returns freed memory to the system every 5 s
SMALL_KV_CACHE = "--kv-memory-gb=0.05"  # full after a few requests: its memory then grows no more
JSON_TYPE = {"Content-Type": "application/json"}


class ServerResponse(NamedTuple):
    """A response; status 0: the connection ended without one."""

    status: int
    body: bytes
    seconds: float


class Usage(NamedTuple):
    """What the server's process has: threads, descriptors, and megabytes with its children."""

    threads: int
    descriptors: int
    memory_mb: float


@dataclass(frozen=True, slots=True)
class Server:
    port: int
    process: subprocess.Popen[bytes]

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def connect(self, timeout_s: float = TIMEOUT_S) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(HOST, self.port, timeout=timeout_s)

    def open_socket(self, timeout_s: float = TIMEOUT_S) -> socket.socket:
        return socket.create_connection((HOST, self.port), timeout_s)

    def request(self, method: str, path: str, body: bytes = b"", **headers: str) -> ServerResponse:
        """Send a request on a connection of its own."""
        start, connection = time.perf_counter(), self.connect()
        try:
            connection.request(method, path, body or None, JSON_TYPE | headers)
            response = connection.getresponse()
            return ServerResponse(response.status, response.read(), time.perf_counter() - start)
        except (OSError, http.client.HTTPException):
            return ServerResponse(0, b"", time.perf_counter() - start)
        finally:
            connection.close()

    def post(self, path: str, body: Any) -> ServerResponse:
        """Post `body`: bytes unchanged, anything else as JSON."""
        return self.request("POST", path, body if isinstance(body, bytes) else json.dumps(body).encode())

    def metric(self, name: str, label: str = "") -> float:
        """The sum of a metric of /metrics over its labels, or over those that include `label`."""
        lines = self.request("GET", "/metrics").body.decode().splitlines()
        return sum(
            float(line.split()[-1])
            for line in lines
            if line.partition(" ")[0].partition("{")[0] == name and label in line
        )

    def usage(self) -> Usage:
        process = psutil.Process(self.process.pid)
        family = [process, *process.children()]
        return Usage(
            process.num_threads(), process.num_fds(), sum(each.memory_info().rss for each in family) / 1e6
        )

    def cpu_s(self) -> float:
        """Seconds of CPU time that its process has used."""
        times = psutil.Process(self.process.pid).cpu_times()
        return times.user + times.system

    def wait_until_idle(self) -> None:
        """Wait until no sequence runs or waits, and what ended requests had is freed."""
        end = time.monotonic() + IDLE_TIMEOUT_S
        while time.monotonic() < end and self.metric("hearth_running") + self.metric("hearth_waiting"):
            time.sleep(0.1)
        time.sleep(TRIM_S)


def start_server(port: int, *flags: str) -> Server:
    """Start `python main.py` without waiting for it."""
    command = [sys.executable, "main.py", "--model", "models/demo", "--port", str(port)]
    options = ["--responses-store=off", "--log-level=error", *flags]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    return Server(port, subprocess.Popen([*command, *options], env=environment, stdout=subprocess.DEVNULL))


@contextmanager
def serving(*flags: str) -> Iterator[Server]:
    """A server that is ready; it is stopped at the end."""
    server = start_server(free_port(), *flags)
    try:
        url = f"http://{HOST}:{server.port}/health/ready"
        assert wait_until_ready(url, server.process, READY_TIMEOUT_S), "the server did not start"
        yield server
    finally:
        server.process.terminate()
        server.process.wait(timeout=TIMEOUT_S)
