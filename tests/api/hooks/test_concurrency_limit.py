"""The limit on concurrent requests, over all dialects and models."""

import gc

import pytest
from flask import Flask

from api.response import NDJSON, ResponseBody
from inference.errors import BadRequest
from inference.events import Finished, Token
from inference.types import GenerationRequest
from tests.api.narrow_app import BATCH, COMPLETION, GENERATING, STREAM, narrow_app, post
from tests.fakes.fake_backend import FakeBackend
from tests.fakes.plain_dialect import PlainWriter


@pytest.fixture
def narrow() -> Flask:
    return narrow_app(FakeBackend())


@pytest.mark.parametrize("path", GENERATING)
def test_every_generating_route_counts_and_is_refused_beyond_the_limit(path: str, narrow: Flask) -> None:
    running = post(narrow, "/v1/completions", STREAM)
    refused = post(narrow, path, GENERATING[path])
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    running.close()
    assert post(narrow, path, GENERATING[path]).status_code == 200


@pytest.mark.parametrize(("end_s", "retry_after"), [(None, "1"), (0.2, "1"), (6.9, "7"), (500.0, "60")])
def test_a_refusal_names_the_time_until_an_answer_ends(end_s: float | None, retry_after: str) -> None:
    backend = FakeBackend()
    app = narrow_app(backend)
    running = post(app, "/v1/completions", STREAM)
    backend.end_s = end_s
    for path in GENERATING:
        assert post(app, path, GENERATING[path]).headers["Retry-After"] == retry_after
    running.close()


def test_of_two_models_the_first_answer_to_end_counts() -> None:
    backends = [FakeBackend(model_id="first"), FakeBackend(model_id="second")]
    app = narrow_app(*backends)
    running = post(app, "/v1/completions", STREAM | {"model": "first"})
    backends[0].end_s, backends[1].end_s = 8.0, 3.0
    assert post(app, "/v1/completions", {"prompt": "a"}).headers["Retry-After"] == "3"
    running.close()


def test_a_streamed_refusal_of_tgi_is_an_event(narrow: Flask) -> None:
    running = post(narrow, "/v1/completions", STREAM)
    refused = post(narrow, "/generate_stream", {"inputs": "hi"})
    assert refused.status_code == 200 and '"error_type":"overloaded"' in refused.text
    running.close()
    assert "generated_text" in post(narrow, "/generate_stream", {"inputs": "hi"}).text


def test_two_models_share_the_limit() -> None:
    app = narrow_app(FakeBackend(model_id="first"), FakeBackend(model_id="second"))
    running = post(app, "/v1/completions", STREAM | {"model": "first"})
    assert post(app, "/v1/completions", {"prompt": "a", "model": "second"}).status_code == 429
    running.close()
    assert post(app, "/v1/completions", {"prompt": "a", "model": "second"}).status_code == 200


def test_a_batch_is_one_request(narrow: Flask) -> None:
    for _ in range(2):
        response = post(narrow, "/v1/inference/batch-completion", BATCH)
        assert (response.status_code, len(response.json["batch"])) == (200, 3)


def test_the_refusal_is_in_the_dialects_form_and_health_stays_reachable(narrow: Flask) -> None:
    running = post(narrow, "/v1/inference/completion", COMPLETION | {"stream": True})
    refused = post(narrow, "/v1/inference/completion", COMPLETION)
    assert "busy" in refused.json["error"]["message"]
    assert narrow.test_client().get("/health").status_code == 200
    running.close()


def test_the_permit_returns_with_the_last_bytes_of_a_stream(narrow: Flask) -> None:
    streamed = post(narrow, "/v1/completions", STREAM)
    chunks = iter(streamed.response)
    while b"[DONE]" not in next(chunks):
        assert post(narrow, "/v1/completions", STREAM).status_code == 429
    assert post(narrow, "/v1/completions", STREAM).status_code == 200


def test_a_pushed_stream_has_ended_before_its_last_bytes_are_pushed() -> None:
    body = ResponseBody(FakeBackend().generate(GenerationRequest("hi")), PlainWriter(), NDJSON)
    order: list[str] = []
    body.on_end(lambda: order.append("ended"))
    for event in (Token(0, 1, "a"), Finished(0, "stop", text="b")):
        order.append(body.feed([event]).decode())
    assert order == ['[0,"a"]\n', "ended", '[0,"b"]\n']


def test_an_invalid_request_takes_no_permit() -> None:
    app = narrow_app(FakeBackend(error=BadRequest("n", "is wrong")))
    for path, body in GENERATING.items():
        assert post(app, path, body).status_code in (400, 422), path


def test_an_invalid_body_is_reported_although_the_server_is_busy(narrow: Flask) -> None:
    running = post(narrow, "/v1/completions", STREAM)
    assert post(narrow, "/v1/completions", {"prompt": 5}).status_code == 400
    running.close()


def test_a_response_that_is_never_read_returns_its_permit(narrow: Flask) -> None:
    with narrow.test_request_context("/v1/completions", method="POST", json=STREAM):
        response = narrow.full_dispatch_request()
    assert response.status_code == 200 and post(narrow, "/v1/completions", STREAM).status_code == 429
    del response
    gc.collect()
    assert post(narrow, "/v1/completions", STREAM).status_code == 200
