"""Requests that arrive on a connection while an earlier one is answered."""

from collections.abc import Callable

from tests.api.conftest import LiveServer, read, request
from tests.fakes.fake_backend import FakeBackend, say

Start = Callable[..., LiveServer]
ENDLESS = say(*["token "] * 10_000, pause_s=0.002)


def test_pipelined_requests_are_answered_in_order(live: Start) -> None:
    server = live(FakeBackend(lambda generation: say(generation.prompt, pause_s=0.05)))
    bodies = [b'{"prompt": "%d", "stream": "%s"}' % (i, (b"", b"sse")[i % 2]) for i in range(6)]
    with server.connect(b"".join(request("POST", "/say", body) for body in bodies)) as connection:
        connection.sendall(request("GET", "/health", b"", "Connection: close"))
        response = read(connection)
    assert response.count(b"HTTP/1.1 200 OK") == 7
    texts = (b'"said":"0"', b'[0,"1"]', b'"said":"2"', b'[0,"3"]', b'"said":"4"', b'[0,"5"]', b'"OK"')
    places = [response.index(text) for text in texts]
    assert places == sorted(places)


def test_a_client_that_leaves_behind_a_pipelined_request_cancels_the_running_one(live: Start) -> None:
    server = live(FakeBackend(ENDLESS))
    with server.connect(request("POST", "/say", b'{"stream": "sse"}') * 2) as connection:
        read(connection, b"data: ")
    server.until(lambda: server.backend.streams and not server.backend.open_streams)
    assert len(server.backend.requests) == 1


def test_garbage_after_a_running_stream_is_not_answered_within_it(live: Start) -> None:
    with live(FakeBackend(ENDLESS)).post("/say", {"stream": "sse"}) as connection:
        read(connection, b"data: ")
        connection.sendall(b"GARBAGE\r\n\r\n")
        assert b"HTTP/1.1" not in read(connection)


def test_garbage_after_a_whole_request_is_not_answered_in_its_place(live: Start) -> None:
    server = live(FakeBackend(say("a", pause_s=0.3)))
    with server.connect(request("POST", "/say", b"{}")) as connection:
        server.until(lambda: server.backend.requests)
        connection.sendall(b"GARBAGE\r\n\r\n")
        assert b" 400 " not in read(connection)


def test_many_pipelined_upgrades_are_answered(live: Start) -> None:
    server = live(FakeBackend(say("a")))
    upgrade = request("GET", "/health/live", b"", "Connection: Upgrade", "Upgrade: h2c")
    last = request("POST", "/say", b"{}", "Connection: close, Upgrade", "Upgrade: websocket")
    with server.connect(upgrade * 1000 + last) as connection:
        response = read(connection)
    assert response.count(b"HTTP/1.1 200 ") == 1001 and response.endswith(b'{"said":"a"}')
