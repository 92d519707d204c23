"""Embeddings while they are computed: nobody waits for them but who asked."""

from collections.abc import Callable

from api.front.bridge import WORKERS
from tests.api.conftest import Live, read, request
from tests.fake_backend import FakeBackend

Start = Callable[..., Live]
BODY = {"input": "a"}
HEALTH = request("GET", "/health", b"", "Connection: close")


def slow() -> FakeBackend:
    backend = FakeBackend()
    backend.embeds_s = 60.0
    return backend


def test_others_are_answered_while_vectors_are_computed(live: Start) -> None:
    server = live(slow())
    asking = [server.post("/v1/embeddings", BODY) for _ in range(2 * WORKERS)]
    server.until(lambda: len(server.backend.open) == len(asking))
    assert server.exchange(HEALTH).endswith(b'{"status":"OK"}')
    for connection in asking:
        connection.close()


def test_whoever_leaves_has_no_vectors_computed(live: Start) -> None:
    server = live(slow())
    connection = server.post("/v1/embeddings", BODY)
    server.until(lambda: server.backend.open)
    connection.close()
    server.until(lambda: not server.backend.open)


def test_one_request_too_many_is_told_to_come_back(live: Start) -> None:
    server = live(slow(), max_concurrent=1)
    first = server.post("/v1/embeddings", BODY)
    server.until(lambda: server.backend.open)
    with server.post("/v1/inference/embeddings", {"model": "fake/model", "contents": ["a"]}) as second:
        assert read(second, b"\r\n").startswith(b"HTTP/1.1 429")
    first.close()
