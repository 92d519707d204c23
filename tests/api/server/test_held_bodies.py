"""All bodies together are bounded, and large ones keep no small one waiting."""

import json
import threading
from collections.abc import Callable

import pytest
from flask import Flask

from api.large_json import COUNTED_BYTES
from api.server.held_bodies import SMALL_BYTES, HeldBodies, HeldBody
from inference.errors import Overloaded
from tests.api.conftest import LiveServer, read_response
from tests.api.conftest import request as http_request
from tests.fake_backend import FakeBackend, say

Start = Callable[..., LiveServer]


def test_bodies_beyond_the_limit_are_refused_until_others_are_released() -> None:
    held_bodies = HeldBodies(max_bytes=10 * SMALL_BYTES)
    first, second, third = HeldBody(held_bodies), HeldBody(held_bodies), HeldBody(held_bodies)
    first.add(7 * SMALL_BYTES)
    second.add(3 * SMALL_BYTES)
    with pytest.raises(Overloaded):
        second.add(1)
    second.release()
    second.release()
    third.add(3 * SMALL_BYTES)
    assert held_bodies.num_bytes == 10 * SMALL_BYTES


def test_one_body_alone_may_exceed_the_limit() -> None:
    HeldBody(HeldBodies(max_bytes=1)).add(10 * SMALL_BYTES)


def test_a_small_body_is_always_accepted() -> None:
    held_bodies = HeldBodies(max_bytes=2 * SMALL_BYTES)
    HeldBody(held_bodies).add(3 * SMALL_BYTES)
    HeldBody(held_bodies).add(SMALL_BYTES)


CHAT = {"messages": [{"role": "user", "content": "x" * 2 * SMALL_BYTES}]}


def test_a_refused_body_gets_status_429_in_the_form_of_the_dialect(live: Start) -> None:
    server = live(FakeBackend(say("a")))
    held_bodies = server.http_server.bridge.held_bodies
    other = HeldBody(held_bodies)
    other.add(held_bodies.max_bytes)
    data = json.dumps(CHAT).encode()
    response = server.exchange(http_request("POST", "/v1/chat/completions", data))
    assert response.startswith(b"HTTP/1.1 429 ") and b"retry-after: " in response
    assert json.loads(response.partition(b"\r\n\r\n")[2])["error"]["code"] == 429
    other.release()
    assert server.exchange(http_request("POST", "/v1/chat/completions", data)).startswith(b"HTTP/1.1 200 ")
    server.until(lambda: not held_bodies.num_bytes)


def test_large_bodies_wait_for_each_other_and_small_ones_do_not(live: Start) -> None:
    server, released = live(FakeBackend()), threading.Event()
    running = 0

    def wait() -> str:
        nonlocal running
        running += 1
        released.wait(5)
        return "done"

    app = server.http_server.bridge.app
    assert isinstance(app, Flask)
    app.add_url_rule("/wait", "wait", wait, methods=["POST"])
    large = http_request("POST", "/wait", b" " * (COUNTED_BYTES + 1))
    connections = [server.connect(large) for _ in range(20)]
    try:
        server.until(lambda: len(server.http_server.bridge.running) == 20)
        assert server.exchange(http_request("GET", "/health/live")).startswith(b"HTTP/1.1 200 ")
        assert running == 1
    finally:
        released.set()
    for connection in connections:
        with connection:
            assert read_response(connection).endswith(b"done")
