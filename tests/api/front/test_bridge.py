"""The server on a real socket: streams, clients who leave, and requests that are no good."""

import asyncio
import logging
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from api.environ import ABORT
from api.front.bridge import Bridge
from inference.errors import Overloaded, Unavailable
from tests.api.conftest import Live, read
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
    server = live(FakeBackend([*say("a")[:2], 0.3, Unavailable("stopped")]))
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
    assert server.until(lambda: not server.backend.open) < 2.0


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
                assert time.monotonic() - begun < 4.0


# Other apps ----------------------------------------------------------------------------------------------


def through_bridge(app: Any, drained: bool = False) -> list[dict[str, Any]]:
    """What is sent for one GET to `app`, without a server; `drained`: after it has been shut down."""
    sent: list[dict[str, Any]] = []
    scope = {
        "method": "GET",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "headers": [],
        "http_version": "1.1",
        "scheme": "http",
        "server": None,
        "client": None,
        "extensions": {ABORT: lambda: sent.append({"type": "aborted"})},
    }

    async def run() -> None:
        arriving = [{"type": "http.request"}]

        async def receive() -> dict[str, Any]:
            return arriving.pop() if arriving else await asyncio.Future()

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        bridge = Bridge(app, max_body=10)
        if drained:
            await bridge.drain(0.0)
        await bridge(scope, receive, send)

    asyncio.run(run())
    return sent


def test_an_app_that_fails_outright_is_an_error_in_json() -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        raise RuntimeError("secret")

    start, body = through_bridge(app)
    assert (start["status"], b"secret" in body["body"]) == (500, False)
    assert body["body"].startswith(b'{"error":{')


def test_a_request_after_the_end_is_dropped_with_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        raise AssertionError("nothing runs any more")

    assert through_bridge(app, drained=True) == [{"type": "aborted"}]
    assert not caplog.records


def test_any_wsgi_app_is_read_to_its_end_and_closed() -> None:
    class Pieces:
        closed = False

        def __iter__(self) -> Iterator[bytes]:
            yield from (b"a", b"b")

        def close(self) -> None:
            Pieces.closed = True

    def app(environ: Any, start_response: Any) -> Pieces:
        start_response("418 I'm a teapot", [("X-Of", "tea")])
        return Pieces()

    start, body = through_bridge(app)
    assert (start["status"], start["headers"]) == (418, [(b"x-of", b"tea"), (b"content-length", b"2")])
    assert (body["body"], Pieces.closed) == (b"ab", True)
