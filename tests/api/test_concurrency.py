"""How many requests are answered at once, whatever their dialect."""

import pytest
from flask import Flask

from api import create_app
from api.concurrency import Admitted
from api.settings import AppSettings
from inference.errors import BadRequest, Overloaded
from inference.types import GenerationRequest
from tests.fake_backend import FakeBackend
from tests.plain_dialect import routes

ASKED = GenerationRequest("hi")


def test_one_more_than_the_limit_is_told_to_come_back() -> None:
    admitted = Admitted(FakeBackend(), 2)
    held = [admitted.generate(ASKED) for _ in range(2)]
    with pytest.raises(Overloaded):
        admitted.generate(ASKED)
    held[0].close()
    admitted.generate(ASKED)


def test_a_seat_is_free_with_the_last_event() -> None:
    admitted = Admitted(FakeBackend(), 1)
    for _ in range(3):
        stream = admitted.generate(ASKED)
        events = [next(stream) for _ in range(4)]
        assert len(events) == 4
    stream.close()
    stream.close()
    held = admitted.generate(ASKED)
    with pytest.raises(Overloaded):
        admitted.generate(ASKED)
    held.close()


def test_a_pushed_stream_leaves_its_seat_before_its_last_event_arrives() -> None:
    admitted = Admitted(backend := FakeBackend(), 1)
    again: list[object] = []

    def sink(arrived: object) -> None:
        if not backend.streams[0].steps:
            again.append(admitted.generate(ASKED))

    admitted.generate(ASKED).start(sink)
    while not again:
        pass
    backend.close()
    assert len(backend.streams) == 2


def test_what_is_refused_takes_no_seat() -> None:
    admitted = Admitted(FakeBackend(fails=BadRequest("n", "is wrong")), 1)
    for _ in range(3):
        with pytest.raises(BadRequest):
            admitted.generate(ASKED)


def test_a_forgotten_stream_leaves_its_seat() -> None:
    admitted = Admitted(FakeBackend(), 1)
    admitted.generate(ASKED)
    admitted.generate(ASKED).close()


@pytest.fixture
def narrow() -> Flask:
    backend = FakeBackend()
    app = create_app(backend, AppSettings(max_concurrent=1))
    app.register_blueprint(routes(backend))
    return app


COMPLETION = {"model": "fake/model", "content": "hi"}
BATCH = {"model": "fake/model", "content_batch": ["a", "b", "c"]}


def test_a_batch_is_one_request(narrow: Flask) -> None:
    for _ in range(2):
        response = narrow.test_client().post("/v1/inference/batch-completion", json=BATCH)
        assert (response.status_code, len(response.json["batch"])) == (200, 3)


def test_the_dialect_says_it_and_health_stays_reachable(narrow: Flask) -> None:
    client = narrow.test_client()
    running = client.post("/v1/inference/completion", json=COMPLETION | {"stream": True})
    refused = client.post("/v1/inference/completion", json=COMPLETION)
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    assert "busy" in refused.json["error"]["message"]
    assert client.get("/health").status_code == 200
    running.close()
    assert client.post("/v1/inference/completion", json=COMPLETION).status_code == 200
