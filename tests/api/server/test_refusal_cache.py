"""Equal requests get equal refusals, for which the app runs once; each is logged and has an id of its own."""

import json
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from api.server import refusal_cache
from tests.api.conftest import LiveServer, read
from tests.api.conftest import request as http_request
from tests.api.narrow_app import NEODIM, STREAM
from tests.fakes.fake_backend import FakeBackend, say

Start = Callable[..., LiveServer]

ENDLESS = say(*["token "] * 10_000, pause_s=0.002)
CHAT = "/v1/chat/completions"


@pytest.fixture
def full(live: Start) -> Iterator[LiveServer]:
    """A server whose only permit is taken."""
    server = live(FakeBackend(ENDLESS), max_concurrent_requests=1)
    with server.post("/v1/completions", STREAM) as stream:
        read(stream, b"data: ")
        yield server


@pytest.fixture
def app_calls(full: LiveServer) -> list[str]:
    """The paths for which the app has run."""
    bridge, calls = full.http_server.bridge, []
    app = bridge.app

    def counted(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        calls.append(environ["PATH_INFO"])
        return app(environ, start_response)

    bridge.app = counted
    return calls


def refuse(server: LiveServer, path: str, body: bytes = b"{}", *headers: str) -> tuple[bytes, bytes]:
    head, _, content = server.exchange(http_request("POST", path, body, *headers)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 429 ")
    return head, content


def test_equal_requests_get_one_refusal_with_their_own_ids(full: LiveServer, app_calls: list[str]) -> None:
    refusals = [refuse(full, CHAT, b"%d" % number, f"X-Request-Id: id-{number}") for number in range(3)]
    rendered = {re.sub(rb"id-\d", b"", head) for head, _ in refusals}
    assert len(rendered) == 1 and len({body for _, body in refusals}) == 1 and app_calls == [CHAT]
    assert [re.findall(rb"x-request-id: (\S+)", head) for head, _ in refusals] == [
        [b"id-0"],
        [b"id-1"],
        [b"id-2"],
    ]
    own_ids = [re.findall(rb"x-request-id: (\S+)", refuse(full, CHAT)[0]) for _ in range(2)]
    assert len(own_ids[0]) == len(own_ids[1]) == 1 and own_ids[0] != own_ids[1]


def test_every_refusal_is_logged(full: LiveServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "hearth.access"):
        for number in range(2):
            refuse(full, CHAT, b"{}", f"X-Request-Id: id-{number}")
    lines = [record.getMessage() for record in caplog.records]
    assert [line[: line.index(" ms=")] for line in lines] == [
        f"request id=id-{number} method=POST path={CHAT} status=429" for number in range(2)
    ]


def test_a_refusal_that_depends_on_headers_or_body_is_that_of_an_equal_request(
    full: LiveServer, app_calls: list[str]
) -> None:
    tgi, neodim = (json.dumps(body).encode() for body in ({"inputs": "a"}, NEODIM))
    for _ in range(2):
        assert json.loads(refuse(full, "/generate", tgi)[1])["error_type"] == "overloaded"
        assert json.loads(refuse(full, "/generate", neodim)[1])["error"].startswith("Overloaded: ")
        assert b"access-control-allow-origin" not in refuse(full, "/generate", tgi)[0]
        assert (
            b"access-control-allow-origin: http://a"
            in refuse(full, "/generate", neodim, "Origin: http://a")[0]
        )
    assert app_calls == ["/generate"] * 3
    foreign = http_request("POST", CHAT, b"{}", "Origin: http://a")
    refuse(full, CHAT)
    assert full.exchange(foreign).startswith(b"HTTP/1.1 403 ")


def test_the_cache_is_bounded(
    full: LiveServer, app_calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusal_cache, "MAX_REFUSALS", 2)
    for path in (f"{CHAT}?a=0", f"{CHAT}?a=1", f"{CHAT}?a=2", f"{CHAT}?a=2", f"{CHAT}?a=0"):
        refuse(full, path)
    refuse(full, CHAT, b"{}", "X-Long: " + "a" * refusal_cache.MAX_KEY_BYTES)
    refuse(full, CHAT, b"{}", "X-Long: " + "a" * refusal_cache.MAX_KEY_BYTES)
    assert len(app_calls) == 6


def test_bodies_that_do_not_arrive_are_refused_without_the_app(
    full: LiveServer, app_calls: list[str]
) -> None:
    full.http_server.bridge.body_idle_s = 0.05
    silent = http_request("POST", CHAT, b"{").replace(b"Content-Length: 1", b"Content-Length: 2")
    responses = [full.exchange(silent) for _ in range(3)]
    assert all(response.startswith(b"HTTP/1.1 408 ") for response in responses) and app_calls == [CHAT]


def test_a_message_of_a_websocket_is_refused_by_a_message(full: LiveServer) -> None:
    """Though a request with the same headers was refused before."""
    path, body = "/v1/responses", b'{"type": "response.create", "input": "hi"}'
    refuse(full, path, body, "Content-Type: application/json")
    handshake = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    with full.connect(http_request("GET", path, b"", *handshake, key)) as connection:
        read(connection, b"\r\n\r\n")
        connection.sendall(b"\x81" + bytes([0x80 | len(body)]) + b"\0" * 4 + body)  # a text, masked by zeros
        message = read(connection, b"}}")
    assert b'{"type":"error","status":429,' in message
