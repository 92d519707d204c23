"""Malformed requests, and unusual uses of connections, on a real socket."""

import select
import time
from collections.abc import Callable, Iterator

import pytest

from api.server import http_protocol
from api.wsgi_environ import RECEIVED
from tests.api.conftest import MAX_BODY, LiveServer, read, request, served
from tests.fakes.fake_backend import FakeBackend, say

Start = Callable[..., LiveServer]


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with served(FakeBackend(say("a")), cors_origins=("*",)) as live:
        yield live


LENGTHS = ["abc", "-5", "+2", "2\r\nContent-Length: 3", "2\r\nTransfer-Encoding: chunked", "0x2", "2, 3"]
LENGTHS += ["0" * 5000 + "2"]  # more digits than Python reads


@pytest.mark.parametrize("length", LENGTHS)
def test_an_invalid_content_length_is_refused(server: LiveServer, length: str) -> None:
    data = f"POST /say HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{{}}"
    response = server.exchange(data.encode())
    assert response.startswith(b"HTTP/1.1 400 ") and b"application/json" in response


TLS_HELLO = b"\x16\x03\x01\x02\x00\x01\x00"


@pytest.mark.parametrize("data", [b"GARBAGE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", TLS_HELLO])
def test_bytes_that_are_not_http_are_refused_in_json(server: LiveServer, data: bytes) -> None:
    response = server.exchange(data)
    assert response.startswith(b"HTTP/1.1 400 ") and b'{"error":{' in response


def test_headers_too_large_are_refused(server: LiveServer) -> None:
    for header in (b"X: " + b"a" * 70_000 + b"\r\n\r\n", b"X: " + b"a" * 1_000_000):
        response = server.exchange(b"GET / HTTP/1.1\r\nHost: x\r\n" + header)
        assert response.startswith(b"HTTP/1.1 431 ") and b'{"error":{' in response


def test_headers_that_never_end_are_cut_off(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if they keep arriving: the time limit counts from the first byte."""
    monkeypatch.setattr(http_protocol, "HEADER_TIMEOUT_S", 0.5)
    start = time.monotonic()
    with server.connect(b"GET / HTTP/1.1\r\nHost: x\r\n") as connection:
        for number in range(400):
            if select.select([connection], [], [], 0.05)[0]:
                break
            connection.sendall(f"X-{number}: 1\r\n".encode())
        else:
            pytest.fail("they were never cut off")
        assert read(connection).startswith(b"HTTP/1.1 408 ")
    assert time.monotonic() - start > 0.45


def test_a_body_declared_too_large_is_refused_unread(server: LiveServer) -> None:
    data = request("POST", "/say").replace(b"Content-Length: 0", b"Content-Length: 5000000000")
    response = server.exchange(data)
    assert response.startswith(b"HTTP/1.1 413 ") and b'{"error":{' in response
    assert b"access-control-allow-origin: *" in response and b"x-request-id: " in response


def test_a_chunked_body_is_counted(live: Start) -> None:
    server = live(FakeBackend())
    head = b"POST /say HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    response = server.exchange(head + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * (MAX_BODY // 65536 + 1))
    assert response.startswith(b"HTTP/1.1 413 ")
    assert not server.backend.requests


def test_a_chunked_body_is_read(server: LiveServer) -> None:
    head = b"POST /say HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    response = server.exchange(head + b'8\r\n{"prompt\r\n8\r\n": "yes"\r\n1\r\n}\r\n0\r\n\r\n')
    assert response.startswith(b"HTTP/1.1 200 ") and server.backend.requests[-1].prompt == "yes"


def test_a_body_that_stops_arriving_times_out(live: Start) -> None:
    server = live(FakeBackend())
    server.http_server.bridge.body_idle_s = 0.3
    data = request("POST", "/say", b"{").replace(b"Content-Length: 1", b"Content-Length: 2")
    assert server.exchange(data).startswith(b"HTTP/1.1 408 ")


def test_a_body_that_arrives_too_slowly_times_out(live: Start) -> None:
    server = live(FakeBackend())
    server.http_server.bridge.body_idle_s = 0.3
    head = request("POST", "/say").replace(b"Content-Length: 0", b"Content-Length: 100")
    with server.connect(head) as connection:
        while not select.select([connection], [], [], 0.05)[0]:
            connection.sendall(b" ")
        assert read(connection).startswith(b"HTTP/1.1 408 ")


def test_the_app_knows_when_the_last_byte_was_read(live: Start) -> None:
    server, received = live(FakeBackend(say("a"))), []
    bridge = server.http_server.bridge
    app = bridge.app
    bridge.app = lambda environ, start_response: (
        received.append(environ[RECEIVED]) or app(environ, start_response)
    )
    data = request("POST", "/say", b"{}")
    with server.connect(data[:-1]) as connection:
        time.sleep(0.1)
        sent = time.perf_counter()
        connection.sendall(data[-1:])
        read(connection, b"\r\n\r\n")
    assert sent < received[0] < time.perf_counter()


def test_expect_100_continue_is_answered_unless_the_body_is_too_large(server: LiveServer) -> None:
    head = request("POST", "/say", b"", "Expect: 100-continue")
    with server.connect(head.replace(b"Length: 0", b"Length: 2")) as connection:
        assert read(connection, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"{}")
        assert read(connection, b"}").startswith(b"HTTP/1.1 200 ")
    assert server.exchange(head.replace(b"Length: 0", b"Length: 9999999")).startswith(b"HTTP/1.1 413 ")


def test_a_request_after_the_drain_is_dropped_without_an_error(
    live: Start, caplog: pytest.LogCaptureFixture
) -> None:
    server = live(FakeBackend())
    server.http_server.bridge.closed = True
    with server.connect(request("GET", "/health/live")) as connection:
        assert read(connection) == b""
    server.until(lambda: not server.http_server.server.server_state.tasks)
    assert not caplog.records


def test_a_connection_is_kept_alive_between_requests(server: LiveServer) -> None:
    with server.connect() as connection:
        for _ in range(5):
            connection.sendall(request("POST", "/say", b"{}"))
            assert read(connection, b"}").endswith(b'{"said":"a"}')


def test_an_underscore_in_a_header_name_does_not_count_as_a_hyphen(live: Start) -> None:
    server = live(FakeBackend(say("a")), api_keys=("key",))
    for header, status in (("X_Api_Key: key", b"401"), ("X-Api-Key: key", b"200")):
        with server.post("/say", {}, header) as connection:
            assert read(connection, b"}").startswith(b"HTTP/1.1 " + status)


def test_head_and_options_are_answered(server: LiveServer) -> None:
    with server.connect(request("HEAD", "/health", b"", "Connection: close")) as connection:
        head = read(connection)
    assert head.startswith(b"HTTP/1.1 200 ") and head.endswith(b"\r\n\r\n")
    assert b"content-length: 15\r\n" in head
    assert b"allow: " in server.exchange(request("OPTIONS", "/say", b"", "Connection: close"))


def test_an_upgrade_is_ignored(server: LiveServer) -> None:
    with server.post("/say", {}, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c") as connection:
        assert read(connection, b"}").endswith(b'{"said":"a"}')


def test_a_tunnel_is_refused(server: LiveServer) -> None:
    assert server.exchange(request("CONNECT", "x:80")).startswith(b"HTTP/1.1 400 ")


def test_an_http_1_0_client_is_answered_and_closed(server: LiveServer) -> None:
    response = server.exchange(b"GET /health HTTP/1.0\r\n\r\n")
    assert response.startswith(b"HTTP/1.1 200 ") and response.endswith(b'{"status":"OK"}')


def test_an_http_1_0_client_gets_no_100_continue(server: LiveServer) -> None:
    data = request("POST", "/say", b"{}", "Expect: 100-continue").replace(b"HTTP/1.1", b"HTTP/1.0")
    assert server.exchange(data).startswith(b"HTTP/1.1 200 "), "it would take it for the response"


def test_a_stream_to_an_http_1_0_client_has_no_chunks(server: LiveServer) -> None:
    data = request("POST", "/say", b'{"stream": "sse"}').replace(b"HTTP/1.1", b"HTTP/1.0")
    with server.connect(data) as connection:
        head, _, body = read(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ") and b"connection: close" in head
    assert b"transfer-encoding" not in head and body == b'data: [0,"a"]\n\n'


PATHS = ["/%ff%00", "/%E2%82%AC", "//health", "/a%2Fb", "/?a=%ff", "http://x/nowhere"]


@pytest.mark.parametrize("path", PATHS)
def test_any_path_gets_a_json_response(server: LiveServer, path: str) -> None:
    response = server.exchange(request("GET", path, b"", "Connection: close"))
    assert response[9:12] in (b"404", b"200") and b"application/json" in response


@pytest.mark.parametrize(
    "data", [b"GET /health HTTP/1.1\r\n\r\n", b"GET /health HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n"]
)
def test_a_request_without_exactly_one_host_is_refused(server: LiveServer, data: bytes) -> None:
    response = server.exchange(data)
    assert response.startswith(b"HTTP/1.1 400 ") and b"one Host header" in response


@pytest.mark.parametrize("version", [b"2.0", b"0.9"])
def test_another_version_of_http_is_refused(server: LiveServer, version: bytes) -> None:
    response = server.exchange(b"GET /health HTTP/%s\r\nHost: x\r\n\r\n" % version)
    assert response.startswith(b"HTTP/1.1 505 ") and b'{"error":{' in response


def test_a_fragment_in_the_path_is_refused(server: LiveServer) -> None:
    response = server.exchange(request("GET", "/health#top"))
    assert response.startswith(b"HTTP/1.1 400 ") and b"%23" in response


@pytest.mark.parametrize("sent", [b"zz\r\n", b"2\r\n{}xx", b"2\r\n{}\r\nffffffffffffffffffff\r\n"])
def test_a_malformed_chunk_is_refused(live: Start, sent: bytes) -> None:
    server = live(FakeBackend())
    head = b"POST /say HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with server.connect(head) as connection:
        server.until(lambda: server.http_server.bridge.running)
        connection.sendall(sent)
        response = read(connection)
    assert response.startswith(b"HTTP/1.1 400 ") and response.count(b"HTTP/1.1 ") == 1
    server.until(lambda: not server.http_server.bridge.running)
    assert not server.backend.requests


CHUNKED = b"POST /say HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"


def test_trailers_are_no_headers(server: LiveServer) -> None:
    """They come after the checks of Host and key."""
    body = b'\r\n11\r\n{"prompt": "yes"}\r\n0\r\nX-Request-Id: forged\r\nHost: y\r\n\r\n'
    response = server.exchange(CHUNKED + body)
    assert response.startswith(b"HTTP/1.1 200 ") and b"forged" not in response
    assert b"x-request-id: forged" in server.exchange(CHUNKED + b"X-Request-Id: forged\r\n" + body)


def test_a_compressed_transfer_is_refused(live: Start) -> None:
    """Its bytes would be read as those of the body."""
    server = live(FakeBackend())
    coded = CHUNKED.replace(b"chunked", b"gzip, chunked") + b"\r\n2\r\n{}\r\n0\r\n\r\n"
    response = server.exchange(coded)
    assert response.startswith(b"HTTP/1.1 501 ") and b"must be chunked" in response
    assert not server.backend.requests
    assert server.exchange(coded.replace(b"gzip, chunked", b"Chunked")).startswith(b"HTTP/1.1 200 ")


ENDLESS = {
    "trailers": b"2\r\n{}\r\n0\r\n" + b"X: y\r\n" * 200_000,
    "a trailer": b"2\r\n{}\r\n0\r\nX: " + b"y" * 1_000_000,
    "a chunk extension": b"2;x=" + b"y" * 1_000_000,
}


@pytest.mark.parametrize("sent", ENDLESS.values(), ids=ENDLESS)
def test_a_body_without_bytes_of_a_body_is_refused(live: Start, sent: bytes) -> None:
    server = live(FakeBackend())
    assert server.exchange(CHUNKED + b"\r\n" + sent).startswith(b"HTTP/1.1 431 ")
    assert not server.backend.requests


@pytest.mark.parametrize(
    ("target", "status"),
    [("http://x/health/live", 200), ("http://X/health/live", 200), ("http://evil.example/health/live", 400)],
)
def test_a_target_with_a_host_of_its_own_is_that_of_the_host_header(
    server: LiveServer, target: str, status: int
) -> None:
    response = server.exchange(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert response.startswith(f"HTTP/1.1 {status} ".encode())
