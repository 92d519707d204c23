"""The server on a real socket: streams, clients that disconnect, and other WSGI apps."""

import asyncio
import logging
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from api.server.asgi_bridge import Bridge
from api.server.early_checks import EarlyChecks
from api.server.request_body import ClientDisconnected
from api.wsgi_environ import ABORT
from inference.errors import Overloaded, Unavailable
from tests.api.conftest import LiveServer, read, request
from tests.fakes.fake_backend import FakeBackend, say
from tests.timeouts import TIMEOUT_S

Start = Callable[..., LiveServer]

ENDLESS = say(*["token "] * 10_000, pause_s=0.002)
SILENT = say("late", pause_s=60.0)


def test_a_stream_arrives_event_by_event(live: Start) -> None:
    may_end = threading.Event()
    first, second, *rest = say("a", "b")
    with live(FakeBackend([first, second, may_end, *rest])).post("/say", {"stream": "sse"}) as connection:
        head = read(connection, b'data: [0,"a"]\n\n')
        may_end.set()
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


def test_an_overload_says_when_to_retry(live: Start) -> None:
    with live(FakeBackend([Overloaded(4)])).post("/say", {"stream": "sse"}) as connection:
        response = read(connection, b"}")
    assert response.startswith(b"HTTP/1.1 429 ") and b"retry-after: 4\r\n" in response


def test_an_error_after_the_first_event_ends_the_stream_properly(live: Start) -> None:
    has_begun = threading.Event()
    server = live(FakeBackend([*say("a")[:2], has_begun, Unavailable("stopped")]))
    with server.post("/say", {"stream": "ndjson"}) as connection:
        read(connection, b'"a"')
        has_begun.set()
        assert b'{"broken":"stopped"}\n\r\n0\r\n\r\n' in read(connection, b"0\r\n\r\n")


@pytest.mark.parametrize("stream", ["", "sse"])
@pytest.mark.parametrize(
    ("script", "num_played"), [(ENDLESS, 9), (SILENT, 2)], ids=["in mid-answer", "before the first token"]
)
@pytest.mark.parametrize("reset", [False, True], ids=["closing", "resetting"])
def test_a_client_that_disconnects_cancels_its_request(
    live: Start, stream: str, script: list, num_played: int, reset: bool
) -> None:
    server = live(FakeBackend(script))
    connection = server.post("/say", {"stream": stream})
    streams = server.backend.streams
    server.until(lambda: streams and len(streams[0].script_steps) <= len(script) - num_played)
    if reset:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    server.until(lambda: not server.backend.open_streams)
    assert streams[0].script_steps, "it has ended by itself"


def test_a_client_that_disconnects_is_logged(live: Start, caplog: pytest.LogCaptureFixture) -> None:
    server = live(FakeBackend(SILENT))
    with caplog.at_level(logging.INFO, "hearth.access"):
        server.post("/say", {}, "X-Request-Id: leaver").close()
        server.until(lambda: "id=leaver method=POST path=/say status=499" in caplog.text)


def test_a_client_that_disconnects_while_sending_starts_nothing(live: Start) -> None:
    server = live(FakeBackend())
    server.connect(b"POST /say HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{").close()
    server.until(lambda: not server.http_server.bridge.running)
    assert not server.backend.requests


def test_a_reader_that_is_too_slow_is_disconnected_and_cancelled(live: Start) -> None:
    server = live(FakeBackend(say(*["x" * 50_000] * 2000), pace_s=0.0005))
    with server.post("/say", {"stream": "sse"}):
        server.until(lambda: server.backend.streams and not server.backend.open_streams)
        assert server.backend.streams[0].script_steps


def test_a_slow_reader_does_not_delay_the_others(live: Start) -> None:
    server = live(
        FakeBackend(lambda generation: say(*(["x" * 50_000] * 2000 if generation.prompt == "big" else "ab")))
    )
    with server.post("/say", {"stream": "sse", "prompt": "big"}):
        server.until(lambda: server.backend.open_streams)
        for _ in range(20):
            with server.post("/say", {"stream": "sse"}) as connection:
                assert read(connection, b"0\r\n\r\n").endswith(b"0\r\n\r\n")


def through_bridge(app: Any, drained: bool = False) -> list[dict[str, Any]]:
    """The ASGI messages sent for one GET to `app`, without a server; with `drained`, after the bridge was
    drained.
    """
    sent: list[dict[str, Any]] = []
    scope = {
        "type": "http",
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

        bridge = Bridge(app, EarlyChecks(lambda method, path: 10))
        if drained:
            await bridge.drain(0.0)
        await bridge(scope, receive, send)

    asyncio.run(run())
    return sent


def test_an_app_that_raises_gives_an_error_in_json() -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        raise RuntimeError("secret")

    start, body = through_bridge(app)
    assert (start["status"], b"secret" in body["body"]) == (500, False)
    assert body["body"].startswith(b'{"error":{')


def test_a_request_after_draining_is_dropped_with_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        raise AssertionError("nothing runs any more")

    assert through_bridge(app, drained=True) == [{"type": "aborted"}]
    assert not caplog.records


def test_a_request_that_waits_for_a_thread_is_dropped_at_the_end_of_the_drain(
    live: Start, caplog: pytest.LogCaptureFixture
) -> None:
    released = threading.Event()
    server = live(FakeBackend(lambda _: say("a") if released.wait(TIMEOUT_S) else []))
    bridge = server.http_server.bridge
    bridge.workers = ThreadPoolExecutor(1)
    connections = [server.post("/say", {}) for _ in range(2)]
    server.until(lambda: len(bridge.running) == 2)
    server.http_server.stop()
    for connection in connections:
        with connection:
            assert read(connection) == b""
    released.set()
    server.until(lambda: not bridge.running)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_any_wsgi_app_is_read_to_its_end_and_closed() -> None:
    class ClosableBody:
        closed = False

        def __iter__(self) -> Iterator[bytes]:
            yield from (b"a", b"b")

        def close(self) -> None:
            ClosableBody.closed = True

    def app(environ: Any, start_response: Any) -> ClosableBody:
        start_response("418 I'm a teapot", [("X-Of", "tea")])
        return ClosableBody()

    start, body = through_bridge(app)
    assert (start["status"], start["headers"]) == (418, [(b"x-of", b"tea"), (b"content-length", b"2")])
    assert (body["body"], ClosableBody.closed) == (b"ab", True)


@pytest.mark.parametrize("level", ["DEBUG", "ERROR"])
def test_a_path_forges_no_line_of_the_log(
    live: Start, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    async def fail(*_: object) -> None:
        raise ClientDisconnected if level == "DEBUG" else RuntimeError

    monkeypatch.setattr(Bridge, "_handle", fail)
    caplog.set_level(level)
    server = live(FakeBackend())
    with server.connect(request("GET", "/a%0aINFO%20hearth.access%20forged%E2%80%A8")) as connection:
        read(connection)
    (message,) = [each.getMessage() for each in caplog.records if "forged" in each.getMessage()]
    assert message.endswith(r"GET /a\x0aINFO\x20hearth.access\x20forged\u2028")
