"""All bodies together are bounded, and large ones keep no small one waiting."""

import json
import random
import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress

import pytest
from flask import Flask

from api.body.large_json import COUNTED_BYTES
from api.server.held_bodies import SMALL_BYTES, HeldBodies, HeldBody
from inference.errors import Overloaded
from tests.api.conftest import LiveServer, read_response
from tests.api.conftest import request as http_request
from tests.fakes.fake_backend import FakeBackend, say
from tests.retry_after import share_close
from tests.timeouts import TIMEOUT_S

Start = Callable[..., LiveServer]
NUM_CLIENTS, UPLOAD = 16, 30 << 20


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


class SlowUploads:
    """Clients that upload bodies of 30 MB, each at its own rate, and one that asks for 20 MB."""

    def __init__(self, clock: list[float]) -> None:
        self.held_bodies, self._clock, self._draws = HeldBodies(), clock, random.Random(0)
        self._uploads: dict[HeldBody, float] = {}  # with bytes a second

    def run(self, seconds: float) -> list[tuple[float, float]]:
        """The expected and actual waits of the client that asks."""
        refused: list[tuple[float, float]] = []
        accepted_at: list[float] = []
        end = self._clock[0] + seconds
        while self._clock[0] < end:
            while len(self._uploads) < NUM_CLIENTS:
                self._uploads[HeldBody(self.held_bodies, UPLOAD)] = self._draws.uniform(1e6, 4e6)
            asking = HeldBody(self.held_bodies, 20 << 20)
            try:
                asking.add(20 << 20)
                accepted_at.append(self._clock[0])
            except Overloaded as error:
                refused.append((error.retry_after, self._clock[0]))
            asking.release()
            self._clock[0] += 0.1
            for body, rate in list(self._uploads.items()):
                self._upload(body, rate)
        return [
            (expected, accepted_at[index] - at)
            for expected, at in refused
            if (index := bisect_right(accepted_at, at)) < len(accepted_at)
        ]

    def _upload(self, body: HeldBody, rate: float) -> None:
        num_bytes = min(UPLOAD - body.num_bytes, int(rate * 0.1))
        with suppress(Overloaded):
            if num_bytes:
                body.add(num_bytes)
                return
        body.release()
        del self._uploads[body]


def test_slow_uploads_tell_when_one_of_them_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    waits = SlowUploads(clock).run(300.0)
    assert len(waits) > 100 and share_close(waits) > 0.9


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
        released.wait(TIMEOUT_S)
        return "done"

    app = server.http_server.bridge.app
    assert isinstance(app, Flask)
    app.add_url_rule("/wait", "wait", wait, methods=["POST"])
    large = http_request("POST", "/wait", b" " * (COUNTED_BYTES + 1))
    connections = [server.connect(large) for _ in range(20)]
    try:
        server.until(lambda: len(server.http_server.bridge.running) == 20 and running)
        assert server.exchange(http_request("GET", "/health/live")).startswith(b"HTTP/1.1 200 ")
        assert running == 1
    finally:
        released.set()
    for connection in connections:
        with connection:
            assert read_response(connection).endswith(b"done")
