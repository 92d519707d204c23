"""A real server on a free port, and raw sockets to talk to it."""

import contextlib
import json
import os
import queue
import re
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from api import create_app
from api.hooks.api_keys import make_key_check
from api.hooks.body_limits import make_body_limit
from api.hooks.concurrency_limit import make_permit_reservation
from api.server.early_checks import EarlyChecks
from api.server.serve import HttpServer, serve
from api.services import Services
from settings.groups import HttpSettings, ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models
from tests.fakes.plain_dialect import routes
from tests.timeouts import TIMEOUT_S
from tuning.service import TuningService

MAX_BODY = 1 << 20


class LiveServer:
    """A running server; sockets to it time out after TIMEOUT_S."""

    def __init__(self, backend: FakeBackend, http_server: HttpServer) -> None:
        self.backend = backend
        self.http_server = http_server
        self.port = http_server.listener.getsockname()[1]

    def connect(self, data: bytes = b"") -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_S)
        connection.sendall(data)
        return connection

    def post(self, path: str, body: Any, *headers: str) -> socket.socket:
        return self.connect(request("POST", path, json.dumps(body).encode(), *headers))

    def exchange(self, data: bytes) -> bytes:
        """Sends `data` and reads one response with a Content-Length."""
        with self.connect(data) as connection:
            return read_response(connection)

    def until(self, claim: Callable[[], Any]) -> None:
        """Wait until `claim` holds."""
        end = time.monotonic() + TIMEOUT_S
        while not claim():
            assert time.monotonic() < end, "it never came true"
            time.sleep(0.001)


def request(method: str, path: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def read(connection: socket.socket, until: bytes | None = None) -> bytes:
    """The data received up to `until`, the end of the stream or a reset."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while (until is None or until not in data) and (chunk := connection.recv(1 << 16)):
            data += chunk
    return data


def read_response(connection: socket.socket) -> bytes:
    head, _, body = read(connection, b"\r\n\r\n").partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    while length and len(body) < int(length[1]) and (chunk := connection.recv(1 << 16)):
        body += chunk
    return head + b"\r\n\r\n" + body


@contextlib.contextmanager
def served(
    backend: FakeBackend, drain_s: float = 0.2, tuning: TuningService | None = None, **settings: Any
) -> Iterator[LiveServer]:
    """A server in its own thread, stopped at the end."""
    limits = ServerSettings(**{"max_body_bytes": MAX_BODY, **settings})
    models = make_models(backend)
    app = create_app(models, limits, services=Services(tuning=tuning))
    app.register_blueprint(routes(backend))
    body_limit = make_body_limit(app, limits.max_body_bytes, limits.root_path)
    ready: queue.Queue[HttpServer] = queue.Queue()
    checks = EarlyChecks(
        body_limit,
        make_permit_reservation(app, limits.root_path),
        make_key_check(limits.api_keys, limits.root_path),
    )
    http_settings = HttpSettings(port=0, drain_seconds=drain_s)
    thread = threading.Thread(target=serve, args=(app, models, checks, http_settings, ready.put))
    thread.start()
    http_server = ready.get(timeout=TIMEOUT_S)
    try:
        yield LiveServer(backend, http_server)
    finally:
        http_server.stop()
        thread.join(timeout=TIMEOUT_S)
        backend.close()
        assert not thread.is_alive(), "the server did not stop"


@pytest.fixture
def live() -> Iterator[Callable[..., LiveServer]]:
    """live(backend, **settings) starts a server; all are stopped at the end of the test."""
    with contextlib.ExitStack() as running:
        yield lambda backend, **settings: running.enter_context(served(backend, **settings))


@pytest.fixture
def spooled_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """spooled_files() lists the temporary files that the test has open, by number: they have no name."""
    if sys.platform != "linux":
        pytest.skip("needs linux")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def is_spooled(number: str) -> bool:
        with contextlib.suppress(FileNotFoundError):  # a thread of the server has closed it meanwhile
            return os.readlink(f"/proc/self/fd/{number}").startswith(str(tmp_path))
        return False

    return lambda: [number for number in os.listdir("/proc/self/fd") if is_spooled(number)]


def full_disk() -> BinaryIO:
    """A temporary file in which no byte can be stored."""
    return open("/dev/full", "r+b")
