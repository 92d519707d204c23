"""The server on a real socket: streams, clients who leave, and requests that are no good."""

import logging
import socket
import struct
import time
from collections.abc import Callable

import pytest

from inference.types import Overloaded, Unavailable
from tests.api.conftest import MAX_BODY, Live, read, request
from tests.fake_backend import FakeBackend, say

Start = Callable[..., Live]

ENDLESS = say(*["token "] * 10_000, pause_s=0.002)
SILENT = say("late", pause_s=60.0)


def test_a_stream_arrives_event_by_event(live: Start) -> None:
    with live(FakeBackend(say("a", "b", pause_s=0.3))).post("/say", {"stream": "sse"}) as connection:
        head = read(connection, b'data: [0,"a"]\n\n')
        assert b'"b"' not in head
        assert b"content-type: text/event-stream" in head
        assert b"200 OK" in head
        assert b'data: [0,"b"]\n\n' in read(connection, b"0\r\n\r\n")


def test_a_whole_answer_has_its_length(live: Start) -> None:
    with live(FakeBackend(say("a", "b"))).post("/say", {}) as connection:
        response = read(connection, b"}")
    assert b"content-length: 13\r\n" in response and response.endswith(b'{"said":"ab"}')


@pytest.mark.parametrize("stream", ["", "sse"])
def test_an_error_before_the_first_event_has_its_own_status(live: Start, stream: str) -> None:
    server = live(FakeBackend([0.05, Unavailable("no memory left")]))
    with server.post("/say", {"stream": stream}) as connection:
        response = read(connection, b"}")
    assert response.startswith(b"HTTP/1.1 503 ") and response.endswith(b'{"failed":"no memory left"}')
    assert response.count(b"content-type: application/json\r\n") == 1
    assert b"content-length: 27\r\n" in response


def test_an_overload_while_queued_says_when_to_come_back(live: Start) -> None:
    with live(FakeBackend([Overloaded(4)])).post("/say", {"stream": "sse"}) as connection:
        response = read(connection, b"}")
    assert response.startswith(b"HTTP/1.1 429 ") and b"retry-after: 4\r\n" in response


def test_an_error_after_the_first_event_ends_the_stream_properly(live: Start) -> None:
    server = live(FakeBackend([*say("a")[:2], Unavailable("stopped")]))
    with server.post("/say", {"stream": "ndjson"}) as connection:
        assert b'{"broken":"stopped"}\n\r\n0\r\n\r\n' in read(connection, b"0\r\n\r\n")


# Clients who leave ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", ["", "sse"])
@pytest.mark.parametrize("script", [ENDLESS, SILENT], ids=["in mid-answer", "before the first event"])
@pytest.mark.parametrize("reset", [False, True], ids=["closing", "resetting"])
def test_a_client_who_leaves_cancels(live: Start, stream: str, script: list, reset: bool) -> None:
    server = live(FakeBackend(script))
    connection = server.post("/say", {"stream": stream})
    server.until(lambda: server.backend.open)
    time.sleep(0.1)
    if reset:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    assert server.until(lambda: not server.backend.open) < 0.1


def test_a_client_who_leaves_is_logged(live: Start, caplog: pytest.LogCaptureFixture) -> None:
    server = live(FakeBackend(SILENT))
    with caplog.at_level(logging.INFO, "hearth.access"):
        server.post("/say", {}, "X-Request-Id: leaver").close()
        server.until(lambda: "id=leaver method=POST path=/say status=499" in caplog.text)


def test_a_client_who_leaves_while_sending_asks_nothing(live: Start) -> None:
    server = live(FakeBackend())
    server.connect(b"POST /say HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{").close()
    server.until(lambda: not server.front.bridge.running)
    assert not server.backend.requests


def test_a_reader_too_slow_is_cut_and_cancelled(live: Start) -> None:
    server = live(FakeBackend(say(*["x" * 50_000] * 2000), pace_s=0.0005))
    with server.post("/say", {"stream": "sse"}):
        assert server.until(lambda: server.backend.streams and not server.backend.open, 8.0)
        assert server.backend.streams[0].steps


def test_a_slow_reader_does_not_hold_up_the_others(live: Start) -> None:
    server = live(FakeBackend(lambda asked: say(*(["x" * 50_000] * 2000 if asked.prompt == "big" else "ab"))))
    with server.post("/say", {"stream": "sse", "prompt": "big"}):
        server.until(lambda: server.backend.open)
        for _ in range(20):
            with server.post("/say", {"stream": "sse"}) as connection:
                begun = time.monotonic()
                read(connection, b"0\r\n\r\n")
                assert time.monotonic() - begun < 0.5


# Requests that are no good -------------------------------------------------------------------------------

LENGTHS = ["abc", "-5", "+2", "2\r\nContent-Length: 3", "2\r\nTransfer-Encoding: chunked", "0x2", "2, 3"]


@pytest.mark.parametrize("length", LENGTHS)
def test_a_doubtful_content_length_is_refused(live: Start, length: str) -> None:
    sent = f"POST /say HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{{}}"
    response = live(FakeBackend()).exchange(sent.encode())
    assert response.startswith(b"HTTP/1.1 400 ") and b"application/json" in response


@pytest.mark.parametrize(
    "sent", [b"GARBAGE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00"]
)
def test_what_is_not_http_is_refused_in_json(live: Start, sent: bytes) -> None:
    response = live(FakeBackend()).exchange(sent)
    assert response.startswith(b"HTTP/1.1 400 ") and b'{"error":{' in response


def test_headers_too_large_are_refused(live: Start) -> None:
    server = live(FakeBackend())
    for header in (b"X: " + b"a" * 70_000 + b"\r\n\r\n", b"X: " + b"a" * 1_000_000):
        response = server.exchange(b"GET / HTTP/1.1\r\nHost: x\r\n" + header)
        assert response.startswith(b"HTTP/1.1 431 ") and b'{"error":{' in response


@pytest.mark.slow
def test_headers_that_never_end_are_cut_off(live: Start) -> None:
    server = live(FakeBackend())
    begun = time.monotonic()
    with server.connect(b"GET / HTTP/1.1\r\nHost: x\r\n") as connection:
        for letter in "abcdef":
            time.sleep(0.5)
            connection.sendall(f"X-{letter}: 1\r\n".encode())
        assert read(connection).startswith(b"HTTP/1.1 408 ")
    assert 4.5 < time.monotonic() - begun < 7.5


def test_a_declared_body_too_large_is_refused_unread(live: Start) -> None:
    sent = request("POST", "/say").replace(b"Content-Length: 0", b"Content-Length: 5000000000")
    response = live(FakeBackend(), cors_origins=("*",)).exchange(sent)
    assert response.startswith(b"HTTP/1.1 413 ") and b'{"error":{' in response
    assert b"access-control-allow-origin: *" in response and b"x-request-id: " in response


def test_a_chunked_body_is_counted(live: Start) -> None:
    server = live(FakeBackend())
    head = b"POST /say HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    response = server.exchange(head + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * (MAX_BODY // 65536 + 1))
    assert response.startswith(b"HTTP/1.1 413 ")
    assert not server.backend.requests


def test_a_chunked_body_is_read(live: Start) -> None:
    head = b"POST /say HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    server = live(FakeBackend())
    server.exchange(head + b'8\r\n{"prompt\r\n8\r\n": "yes"\r\n1\r\n}\r\n0\r\n\r\n')
    assert server.backend.requests[0].prompt == "yes"


def test_a_body_that_stops_arriving_is_given_up(live: Start) -> None:
    server = live(FakeBackend())
    server.front.bridge.silence_s = 0.3
    sent = request("POST", "/say", b"{").replace(b"Content-Length: 1", b"Content-Length: 2")
    assert server.exchange(sent).startswith(b"HTTP/1.1 408 ")


def test_a_body_that_only_drips_is_given_up(live: Start) -> None:
    server = live(FakeBackend())
    server.front.bridge.silence_s = 0.3
    head = request("POST", "/say").replace(b"Content-Length: 0", b"Content-Length: 100")
    with server.connect(head) as connection:
        for _ in range(5):
            time.sleep(0.1)
            connection.sendall(b" ")
        assert read(connection).startswith(b"HTTP/1.1 408 ")


def test_expected_bodies_are_asked_for_unless_too_large(live: Start) -> None:
    server = live(FakeBackend())
    head = request("POST", "/say", b"", "Expect: 100-continue")
    with server.connect(head.replace(b"Length: 0", b"Length: 2")) as connection:
        assert read(connection, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"{}")
        assert read(connection, b"}").startswith(b"HTTP/1.1 200 ")
    assert server.exchange(head.replace(b"Length: 0", b"Length: 9999999")).startswith(b"HTTP/1.1 413 ")


# Connections ---------------------------------------------------------------------------------------------


def test_pipelined_requests_are_answered_in_order(live: Start) -> None:
    server = live(FakeBackend(lambda asked: say(asked.prompt, pause_s=0.05)))
    bodies = [b'{"prompt": "%d", "stream": "%s"}' % (i, (b"", b"sse")[i % 2]) for i in range(6)]
    with server.connect(b"".join(request("POST", "/say", body) for body in bodies)) as connection:
        connection.sendall(request("GET", "/health", b"", "Connection: close"))
        response = read(connection)
    assert response.count(b"HTTP/1.1 200 OK") == 7
    places = [
        response.index(said) for said in (b'"said":"0"', b'[0,"1"]', b'"said":"2"', b'[0,"3"]', b'"OK"')
    ]
    assert places == sorted(places)


def test_garbage_behind_a_running_stream_is_not_answered_into_it(live: Start) -> None:
    with live(FakeBackend(ENDLESS)).post("/say", {"stream": "sse"}) as connection:
        read(connection, b"data: ")
        connection.sendall(b"GARBAGE\r\n\r\n")
        assert b"HTTP/1.1" not in read(connection)


def test_a_connection_is_kept_alive_between_requests(live: Start) -> None:
    with live(FakeBackend(say("a"))).connect() as connection:
        for _ in range(5):
            connection.sendall(request("POST", "/say", b"{}"))
            assert read(connection, b"}").endswith(b'{"said":"a"}')


def test_an_underscore_cannot_pass_for_a_hyphen(live: Start) -> None:
    server = live(FakeBackend(say("a")), api_keys=("key",))
    for header, status in (("X_Api_Key: key", b"401"), ("X-Api-Key: key", b"200")):
        with server.post("/say", {}, header) as connection:
            assert read(connection, b"}").startswith(b"HTTP/1.1 " + status)


def test_head_and_options_are_answered(live: Start) -> None:
    server = live(FakeBackend())
    head = server.exchange(request("HEAD", "/health", b"", "Connection: close"))
    assert (
        head.startswith(b"HTTP/1.1 200 ") and b"content-length: 15\r\n" in head and head.endswith(b"\r\n\r\n")
    )
    assert b"allow: " in server.exchange(request("OPTIONS", "/say", b"", "Connection: close"))


def test_an_upgrade_is_not_taken_up(live: Start) -> None:
    server = live(FakeBackend(say("a")))
    with server.post("/say", {}, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c") as connection:
        assert read(connection, b"}").endswith(b'{"said":"a"}')


def test_a_tunnel_is_refused(live: Start) -> None:
    assert live(FakeBackend()).exchange(request("CONNECT", "x:80")).startswith(b"HTTP/1.1 400 ")


def test_an_http_1_0_client_is_answered_and_closed(live: Start) -> None:
    response = live(FakeBackend()).exchange(b"GET /health HTTP/1.0\r\n\r\n")
    assert response.startswith(b"HTTP/1.1 200 ") and response.endswith(b'{"status":"OK"}')


@pytest.mark.parametrize(
    "path", ["/%ff%00", "/%E2%82%AC", "//health", "/a%2Fb", "/?a=%ff", "http://x/nowhere"]
)
def test_any_path_is_found_or_not_found(live: Start, path: str) -> None:
    response = live(FakeBackend()).exchange(request("GET", path, b"", "Connection: close"))
    assert response[9:12] in (b"404", b"200") and b"application/json" in response
