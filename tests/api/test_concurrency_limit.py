"""The limit on concurrent requests, over all dialects."""

import time

import pytest
from flask import Flask

from api import create_app
from api.concurrency_limit import LimitedBackend
from inference.errors import BadRequest, Overloaded
from inference.types import GenerationRequest
from settings.groups import ServerSettings
from tests.fake_backend import FakeBackend
from tests.plain_dialect import routes

REQUEST = GenerationRequest("hi")


def test_a_request_beyond_the_limit_is_refused() -> None:
    limited_backend = LimitedBackend(FakeBackend(), 2)
    streams = [limited_backend.generate(REQUEST) for _ in range(2)]
    with pytest.raises(Overloaded):
        limited_backend.generate(REQUEST)
    streams[0].close()
    limited_backend.generate(REQUEST)


def test_a_permit_is_released_with_the_last_event() -> None:
    limited_backend = LimitedBackend(FakeBackend(), 1)
    for _ in range(3):
        stream = limited_backend.generate(REQUEST)
        events = [next(stream) for _ in range(4)]
        assert len(events) == 4
    stream.close()
    stream.close()
    last_stream = limited_backend.generate(REQUEST)
    with pytest.raises(Overloaded):
        limited_backend.generate(REQUEST)
    last_stream.close()


def test_a_pushed_stream_releases_its_permit_before_its_last_event_arrives() -> None:
    limited_backend = LimitedBackend(backend := FakeBackend(), 1)
    again: list[object] = []

    def sink(arrived: object) -> None:
        if not backend.streams[0].script_steps:
            again.append(limited_backend.generate(REQUEST))

    limited_backend.generate(REQUEST).start(sink)
    end = time.monotonic() + 30
    while not again and time.monotonic() < end:
        time.sleep(0.001)
    backend.close()
    assert len(backend.streams) == 2


def test_a_refused_request_takes_no_permit() -> None:
    limited_backend = LimitedBackend(FakeBackend(error=BadRequest("n", "is wrong")), 1)
    for _ in range(3):
        with pytest.raises(BadRequest):
            limited_backend.generate(REQUEST)


def test_a_discarded_stream_releases_its_permit() -> None:
    limited_backend = LimitedBackend(FakeBackend(), 1)
    limited_backend.generate(REQUEST)
    limited_backend.generate(REQUEST).close()


@pytest.fixture
def narrow() -> Flask:
    backend = FakeBackend()
    app = create_app(backend, ServerSettings(max_concurrent_requests=1))
    app.register_blueprint(routes(backend))
    return app


COMPLETION = {"model": "fake/model", "content": "hi"}
BATCH = {"model": "fake/model", "content_batch": ["a", "b", "c"]}


def test_a_batch_is_one_request(narrow: Flask) -> None:
    for _ in range(2):
        response = narrow.test_client().post("/v1/inference/batch-completion", json=BATCH)
        assert (response.status_code, len(response.json["batch"])) == (200, 3)


def test_the_refusal_is_in_the_dialects_form_and_health_stays_reachable(narrow: Flask) -> None:
    client = narrow.test_client()
    running = client.post("/v1/inference/completion", json=COMPLETION | {"stream": True})
    refused = client.post("/v1/inference/completion", json=COMPLETION)
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    assert "busy" in refused.json["error"]["message"]
    assert client.get("/health").status_code == 200
    running.close()
    assert client.post("/v1/inference/completion", json=COMPLETION).status_code == 200
