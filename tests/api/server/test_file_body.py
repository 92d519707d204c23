"""A file is sent piece by piece, and is closed at the end or when the client leaves."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from flask import Response

from api.body.file_body import CHUNK_BYTES, FileBody
from api.server import http_protocol
from tests.api.conftest import LiveServer, read, read_response
from tests.api.conftest import request as http_request
from tests.fakes.fake_backend import FakeBackend

Start = Callable[..., LiveServer]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * (20 * CHUNK_BYTES // 256) + b"end")
    return path


@pytest.fixture
def server(live: Start, file: Path) -> LiveServer:
    server = live(FakeBackend())
    app = server.http_server.bridge.app
    app.add_url_rule("/file", "file", lambda: Response(FileBody(file), direct_passthrough=True))  # type: ignore
    return server


def open_files() -> list[str]:
    return [opened.path for opened in psutil.Process().open_files()]


def test_a_client_gets_every_byte(server: LiveServer, file: Path) -> None:
    head, _, body = server.exchange(http_request("GET", "/file")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ") and f"content-length: {file.stat().st_size}".encode() in head
    assert body == file.read_bytes()
    server.until(lambda: str(file) not in open_files())


def test_the_connection_is_kept(server: LiveServer) -> None:
    with server.connect() as connection:
        for _ in range(2):
            connection.sendall(http_request("GET", "/file"))
            assert read_response(connection).endswith(b"end")


def test_the_file_is_closed_when_the_client_leaves(server: LiveServer, file: Path) -> None:
    connection = server.connect(http_request("GET", "/file"))
    read(connection, b"\r\n\r\n")
    assert str(file) in open_files()
    connection.close()
    server.until(lambda: str(file) not in open_files())


def test_a_reader_that_takes_a_little_at_a_time_is_dropped(
    server: LiveServer, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "WRITE_STALL_S", 0.5)
    with server.connect(http_request("GET", "/file")) as connection:
        read(connection, b"\r\n\r\n")
        assert str(file) in open_files()

        def has_been_dropped() -> bool:
            with contextlib.suppress(ConnectionResetError):
                connection.recv(1)
            return str(file) not in open_files()

        server.until(has_been_dropped)
