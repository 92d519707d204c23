"""While no permit is free, a request is refused before its body is parsed, as it would be afterwards."""

import json
import threading
from collections.abc import Callable

import pytest

from tests.api.conftest import LiveServer, read, read_response
from tests.api.conftest import request as http_request
from tests.api.narrow_app import GENERATING, STREAM, narrow_app, post
from tests.fakes.fake_backend import FakeBackend, say
from tests.timeouts import TIMEOUT_S

Start = Callable[..., LiveServer]

ENDLESS = say(*["token "] * 10_000, pause_s=0.002)
NOT_EARLY = ("/invocations", "/")  # their refusal can be part of a stream


@pytest.mark.parametrize("path", [path for path in GENERATING if path not in NOT_EARLY])
def test_an_early_refusal_is_the_usual_one(live: Start, path: str) -> None:
    app = narrow_app(FakeBackend())
    running = post(app, "/v1/completions", STREAM)
    usual = post(app, path, GENERATING[path])
    running.close()
    server = live(FakeBackend(ENDLESS), max_concurrent_requests=1)
    with server.post("/v1/completions", STREAM) as stream:
        read(stream, b"data: ")
        data = json.dumps(GENERATING[path]).encode()
        head, _, body = server.exchange(http_request("POST", path.strip(), data)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 429 ") and b"retry-after: 1" in head and usual.status_code == 429
    assert json.loads(body) == usual.json


def test_the_body_of_a_refused_request_is_not_parsed(live: Start) -> None:
    server = live(FakeBackend(ENDLESS), max_concurrent_requests=1)
    with server.post("/v1/completions", STREAM) as stream:
        read(stream, b"data: ")
        refused = server.exchange(http_request("POST", "/v1/completions", b"no JSON"))
        assert refused.startswith(b"HTTP/1.1 429 ")
        assert server.exchange(http_request("POST", "/tokenize", b"no JSON")).startswith(b"HTTP/1.1 400 ")
        assert server.exchange(http_request("GET", "/health")).startswith(b"HTTP/1.1 200 ")
    server.until(lambda: not server.http_server.bridge.running)
    assert server.exchange(http_request("POST", "/v1/completions", b"no JSON")).startswith(b"HTTP/1.1 400 ")


def test_a_permit_is_reserved_before_the_app_runs(live: Start) -> None:
    server, may_run = live(FakeBackend(say("a")), max_concurrent_requests=1), threading.Event()
    bridge = server.http_server.bridge
    app = bridge.app
    bridge.app = lambda environ, start_response: may_run.wait(TIMEOUT_S) and app(environ, start_response)
    generating = http_request("POST", "/v1/completions", b'{"prompt": "a"}')
    with server.connect(generating) as first:
        server.until(lambda: bridge.running)
        bridge.app = app
        assert server.exchange(generating).startswith(b"HTTP/1.1 429 ")
        may_run.set()
        assert read_response(first).startswith(b"HTTP/1.1 200 ")
    assert server.exchange(generating).startswith(b"HTTP/1.1 200 ")


def test_the_permit_of_an_invalid_request_returns(live: Start) -> None:
    server = live(FakeBackend(say("a")), max_concurrent_requests=1)
    for _ in range(3):
        assert server.exchange(http_request("POST", "/v1/completions", b"{}")).startswith(b"HTTP/1.1 400 ")


def test_a_connection_is_kept_alive_after_a_refusal(live: Start) -> None:
    server = live(FakeBackend(ENDLESS), max_concurrent_requests=1)
    with server.post("/v1/completions", STREAM) as stream:
        read(stream, b"data: ")
        with server.connect() as connection:
            for _ in range(3):
                connection.sendall(http_request("POST", "/v1/completions", b"{}"))
                assert read_response(connection).startswith(b"HTTP/1.1 429 ")


def test_a_large_body_is_refused_too(live: Start) -> None:
    server = live(FakeBackend(ENDLESS), max_concurrent_requests=1)
    with server.post("/v1/completions", STREAM) as stream:
        read(stream, b"data: ")
        refused = server.exchange(http_request("POST", "/v1/chat/completions", b"[" * 500_000))
        assert refused.startswith(b"HTTP/1.1 429 ")
