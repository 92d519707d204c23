"""Bodies on disk, through the whole server: limits per route, errors in the dialect's format, and no leak."""

import json
import tempfile
import threading
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask, request

from api.hooks.body_limits import UNUSED_BODY_BYTES
from api.openapi.operation import Operation, attach_operation
from api.server.request_body import SPOOL_BYTES
from tests.api.conftest import MAX_BODY, LiveServer, full_disk, read, served
from tests.api.conftest import request as http_request
from tests.fakes.fake_backend import FakeBackend, say
from tests.timeouts import TIMEOUT_S

Start = Callable[..., LiveServer]
SpooledFiles = Callable[[], list[str]]
IsIdle = Callable[[LiveServer], bool]

LARGE = 3 * SPOOL_BYTES
CHATS = "/v1/chat/completions"


@pytest.fixture
def is_idle(spooled_files: SpooledFiles) -> IsIdle:
    """Whether no request is unfinished, and no body on disk."""
    return lambda server: not server.http_server.bridge.running and not spooled_files()


def partial_request(path: str, declared: int, sent: int) -> bytes:
    head = http_request("POST", path).replace(b"Content-Length: 0", b"Content-Length: %d" % declared)
    return head + b" " * sent


def test_a_large_body_is_parsed_and_deleted(live: Start, is_idle: IsIdle) -> None:
    server = live(FakeBackend(say("a")), max_body_bytes=2 * LARGE)
    for stream in ("", "sse"):
        prompt = "x" * LARGE
        with server.post("/say", {"prompt": prompt, "stream": stream}, "Connection: close") as connection:
            assert read(connection).startswith(b"HTTP/1.1 200 ")
        assert server.backend.requests[-1].prompt == prompt
        server.until(lambda: is_idle(server))


def test_a_body_is_deleted_when_its_stream_starts(live: Start, spooled_files: SpooledFiles) -> None:
    first, second, *rest = say("a", "b")
    server = live(FakeBackend([first, second, threading.Event(), *rest]), max_body_bytes=2 * LARGE)
    with server.post("/say", {"prompt": "x" * LARGE, "stream": "sse"}) as connection:
        read(connection, b'"a"')
        assert not spooled_files() and server.http_server.bridge.running


def test_the_body_of_a_failing_app_is_deleted(live: Start, is_idle: IsIdle) -> None:
    server = live(FakeBackend(), max_body_bytes=2 * LARGE)
    response = server.exchange(http_request("POST", "/fail", b" " * LARGE, "Connection: close"))
    assert response.startswith(b"HTTP/1.1 500 ")
    server.until(lambda: is_idle(server))


def test_a_client_that_disconnects_in_mid_body_leaves_nothing(
    live: Start, is_idle: IsIdle, spooled_files: SpooledFiles
) -> None:
    server = live(FakeBackend(), max_body_bytes=2 * LARGE)
    connection = server.connect(partial_request("/say", LARGE, 2 * SPOOL_BYTES))
    server.until(spooled_files)
    connection.close()
    server.until(lambda: is_idle(server))
    assert not server.backend.requests


def test_a_body_that_stops_in_the_middle_is_deleted(live: Start, is_idle: IsIdle) -> None:
    server = live(FakeBackend(), max_body_bytes=2 * LARGE)
    server.http_server.bridge.body_idle_s = 0.3
    response = server.exchange(partial_request("/say", LARGE, 2 * SPOOL_BYTES))
    assert response.startswith(b"HTTP/1.1 408 ")
    server.until(lambda: is_idle(server))


def test_the_drain_ends_a_body_in_the_middle(is_idle: IsIdle, spooled_files: SpooledFiles) -> None:
    with served(FakeBackend(), max_body_bytes=2 * LARGE) as server:
        server.http_server.bridge.body_idle_s = 10 * TIMEOUT_S
        connection = server.connect(partial_request("/say", LARGE, 2 * SPOOL_BYTES))
        server.until(spooled_files)
    assert is_idle(server) and read(connection) == b""
    connection.close()


def add_upload(app: Flask, body_limit: int) -> None:
    """A route with its own limit, that answers with the length of the body."""

    def upload() -> dict[str, int]:
        return {"length": len(request.get_data())}

    operation = Operation("Count the bytes", body=bytes, body_limit=body_limit)
    app.add_url_rule("/upload", "upload", attach_operation(upload, operation), methods=["POST"])


def test_each_route_has_its_own_limit(live: Start) -> None:
    server = live(FakeBackend(say("a")))
    add_upload(server.http_server.bridge.app, body_limit=LARGE)  # type: ignore[arg-type]
    assert LARGE > MAX_BODY
    response = server.exchange(http_request("POST", "/upload", b"x" * LARGE))
    assert response.endswith(b'{"length":%d}\n' % LARGE)
    for path, declared in (("/upload", LARGE + 1), ("/say", MAX_BODY + 1), ("/ping", UNUSED_BODY_BYTES + 1)):
        assert server.exchange(partial_request(path, declared, 0)).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(("prefix", "status"), [("/llm", b"200"), ("/other", b"404")])
def test_a_limit_is_found_below_root_path(live: Start, prefix: str, status: bytes) -> None:
    server = live(FakeBackend(say("a")), root_path="/llm")
    response = server.exchange(http_request("POST", f"{prefix}/say", b"{}".ljust(MAX_BODY)))
    assert response.startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "/nowhere", b"404"), ("POST", "/v1/models", b"405"), ("GET", "/health", b"413")],
)
def test_a_large_body_that_nothing_reads_is_refused_unread(
    live: Start, method: str, path: str, status: bytes
) -> None:
    server = live(FakeBackend())
    head = http_request(method, path).replace(b"Length: 0", b"Length: %d" % (UNUSED_BODY_BYTES + 1))
    response = server.exchange(head)
    assert response.startswith(b"HTTP/1.1 " + status) and b"connection: close" in response
    assert b'"error"' in response


@pytest.mark.parametrize(
    ("method", "path", "status"), [("POST", "/nowhere", b"404"), ("GET", "/health", b"200")]
)
def test_a_small_body_that_nothing_reads_is_dropped(
    live: Start, method: str, path: str, status: bytes
) -> None:
    server = live(FakeBackend())
    data = http_request(method, path, b"x" * UNUSED_BODY_BYTES) + http_request("GET", "/health/live")
    with server.connect(data) as connection:
        response = read(connection, b'{"status":"OK"}' if method == "POST" else b'"OK"}HTTP/1.1 200 ')
    assert response.startswith(b"HTTP/1.1 " + status) and response.count(b"HTTP/1.1 ") == 2


def test_requests_pipelined_after_a_refused_body_are_dropped(live: Start, is_idle: IsIdle) -> None:
    server = live(FakeBackend(say("a")))
    chunked = b"POST /say HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n" % LARGE + b"x" * LARGE + b"\r\n0\r\n\r\n"
    for refused in (http_request("POST", "/say", b"x" * (MAX_BODY + 1)), chunked + chunk):
        with server.connect(refused + http_request("POST", "/say", b"{}")) as connection:
            response = read(connection)
        assert response.startswith(b"HTTP/1.1 413 ") and response.count(b"HTTP/1.1 ") == 1
        server.until(lambda: is_idle(server))
    assert not server.backend.requests


NOT_STORED = "the server cannot store the body: its temporary folder is full or not writable"
FORMATS: dict[str, dict[str, Any]] = {
    CHATS: {
        "error": {"message": NOT_STORED, "type": "Insufficient Storage", "param": None, "code": 507},
        "error_type": "generation",
    },
    "/generate_stream": {"error": NOT_STORED, "error_type": "generation"},
}


@pytest.mark.parametrize("path", FORMATS)
def test_a_full_disk_is_an_error_in_the_format_of_the_dialect(
    live: Start, monkeypatch: pytest.MonkeyPatch, path: str, is_idle: IsIdle
) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", full_disk)
    server = live(FakeBackend(), max_body_bytes=2 * LARGE)
    response = server.exchange(http_request("POST", path, b" " * LARGE))
    assert response.startswith(b"HTTP/1.1 507 Insufficient Storage\r\n")
    assert json.loads(response.partition(b"\r\n\r\n")[2]) == FORMATS[path]
    server.until(lambda: is_idle(server))
    assert server.exchange(http_request("GET", "/health")).startswith(b"HTTP/1.1 200 ")
