"""A real server on a free port, and sockets to talk to it with nothing in between."""

import contextlib
import json
import queue
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from api import create_app
from api.front.serve import Front, serve
from api.settings import AppSettings
from tests.fake_backend import FakeBackend
from tests.plain_dialect import routes

MAX_BODY = 1 << 20


class Live:
    """A running server. Every wait ends after a few seconds, with what has come until then."""

    def __init__(self, backend: FakeBackend, front: Front) -> None:
        self.backend = backend
        self.front = front
        self.port = front.listener.getsockname()[1]

    def connect(self, sent: bytes = b"") -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=8)
        connection.sendall(sent)
        return connection

    def post(self, path: str, body: Any, *headers: str) -> socket.socket:
        return self.connect(request("POST", path, json.dumps(body).encode(), *headers))

    def exchange(self, sent: bytes) -> bytes:
        """Send, and read one response with a Content-Length."""
        with self.connect(sent) as connection:
            return read_response(connection)

    def until(self, claim: Callable[[], Any], within_s: float = 3.0) -> float:
        """Seconds until `claim` holds."""
        begun = time.monotonic()
        while not claim():
            assert time.monotonic() < begun + within_s, "it never came true"
            time.sleep(0.001)
        return time.monotonic() - begun


def request(method: str, path: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def read(connection: socket.socket, until: bytes | None = None) -> bytes:
    """What comes, up to `until`, or the end, or a reset."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while (until is None or until not in data) and (piece := connection.recv(1 << 16)):
            data += piece
    return data


def read_response(connection: socket.socket) -> bytes:
    head, _, body = read(connection, b"\r\n\r\n").partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    while length and len(body) < int(length[1]) and (piece := connection.recv(1 << 16)):
        body += piece
    return head + b"\r\n\r\n" + body


@contextlib.contextmanager
def served(backend: FakeBackend, drain_s: float = 0.2, **settings: Any) -> Iterator[Live]:
    """A server in a thread of its own, stopped at the end."""
    limits = AppSettings(**{"max_body_bytes": MAX_BODY, **settings})
    app = create_app(backend, limits)
    app.register_blueprint(routes(backend))
    ready: queue.Queue[Front] = queue.Queue()
    told = {"host": "127.0.0.1", "port": 0, "drain_seconds": drain_s, "max_body": limits.max_body_bytes}
    thread = threading.Thread(target=serve, args=(app, backend), kwargs={**told, "on_ready": ready.put})
    thread.start()
    front = ready.get(timeout=10)
    try:
        yield Live(backend, front)
    finally:
        front.stop()
        thread.join(timeout=10)
        backend.close()
        assert not thread.is_alive(), "the server did not stop"


@pytest.fixture
def live() -> Iterator[Callable[..., Live]]:
    """live(backend, **settings) starts a server; all are stopped at the end of the test."""
    with contextlib.ExitStack() as running:
        yield lambda backend, **settings: running.enter_context(served(backend, **settings))
