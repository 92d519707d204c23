"""Embeddings while they are computed: other requests do not wait for them."""

from collections.abc import Callable

from api.server.asgi_bridge import NUM_WORKERS
from tests.api.conftest import LiveServer, read, request
from tests.fakes.fake_backend import FakeBackend

Start = Callable[..., LiveServer]
BODY = {"input": "a"}
HEALTH = request("GET", "/health", b"", "Connection: close")


def slow() -> FakeBackend:
    backend = FakeBackend()
    backend.embed_s = 60.0
    return backend


def test_other_requests_are_answered_while_vectors_are_computed(live: Start) -> None:
    server = live(slow())
    connections = [server.post("/v1/embeddings", BODY) for _ in range(2 * NUM_WORKERS)]
    server.until(lambda: len(server.backend.open_streams) == len(connections))
    assert server.exchange(HEALTH).endswith(b'{"status":"OK"}')
    for connection in connections:
        connection.close()


def test_a_client_that_disconnects_cancels_its_embedding(live: Start) -> None:
    server = live(slow())
    connection = server.post("/v1/embeddings", BODY)
    server.until(lambda: server.backend.open_streams)
    connection.close()
    server.until(lambda: not server.backend.open_streams)


def test_a_request_beyond_the_limit_is_refused(live: Start) -> None:
    server = live(slow(), max_concurrent_requests=1)
    first = server.post("/v1/embeddings", BODY)
    server.until(lambda: server.backend.open_streams)
    with server.post("/v1/inference/embeddings", {"model": "fake/model", "contents": ["a"]}) as second:
        assert read(second, b"\r\n").startswith(b"HTTP/1.1 429")
    first.close()
