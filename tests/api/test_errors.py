"""Errors that Flask raises, and panics of a library, are rendered in the route's own format."""

import errno
import os
from typing import Any

import pytest
from flask import Blueprint, Flask, abort

from api import create_app
from api.errors import render_errors
from inference.types import GenerationRequest
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, FakeStream, make_models
from tests.process.panicking_tokenizer import make_panicking_tokenizer


@pytest.mark.parametrize(
    ("raised", "expected"),
    [(400, 400), (404, 404), (414, 400), (500, 500), (501, 501), (502, 500), (503, 503)],
)
def test_an_http_error_of_the_server_is_not_reported_as_a_bad_request(raised: int, expected: int) -> None:
    blueprint = Blueprint("test", __name__)
    blueprint.add_url_rule("/", "fail", lambda: abort(raised))
    render_errors(blueprint, lambda error: (error.status, error.message))
    app = Flask("test")
    app.register_blueprint(blueprint)
    assert app.test_client().get("/").status_code == expected


class PanickingBackend(FakeBackend):
    def generate(self, request: GenerationRequest) -> FakeStream:
        make_panicking_tokenizer().encode("a" * 40 + "!")
        return super().generate(request)


CHAT = {"model": "fake/model", "messages": [{"role": "user", "content": "a"}]}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": CHAT,
    "/v1/responses": {"input": "a"},
    "/v1/inference/chat-completion": CHAT,
    "/generate": {"inputs": "a"},
}
STATUSES = {"/generate": 424}  # the status of TGI's own failures
NEODIM = {"prompt": "a", "generated_tokens_count": 2, "max_total_tokens": 50}


@pytest.mark.parametrize("path", BODIES)
def test_a_panic_of_the_tokenizer_is_logged_and_answered_in_the_dialects_format(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = create_app(make_models(PanickingBackend()), ServerSettings()).test_client()
    response = client.post(path, json=BODIES[path])
    assert (response.status_code, response.mimetype) == (STATUSES.get(path, 500), "application/json")
    assert "an unexpected error occurred" in str(response.json["error"])
    assert "retry-limit" not in response.text
    assert response.headers["X-Request-Id"] in caplog.text
    assert "a library has panicked: Onig: Regex search error" in caplog.text


class TightBackend(FakeBackend):
    """The system refuses memory for the first request."""

    error: Exception | None = None

    def generate(self, request: GenerationRequest) -> FakeStream:
        error, self.error = self.error, None
        if error:
            raise error
        return super().generate(request)


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("[enforce fail] std::bad_alloc")])
def test_a_request_without_memory_may_try_again_when_an_answer_has_ended(path: str, error: Exception) -> None:
    backend = TightBackend()
    client = create_app(make_models(backend), ServerSettings()).test_client()
    running = client.post("/v1/completions", json={"prompt": "a", "stream": True})
    backend.error, backend.end_s = error, 7.0
    response = client.post(path, json=BODIES[path])
    assert (response.status_code, response.headers["Retry-After"]) == (503, "7")
    assert "too little memory for this request" in str(response.json["error"])
    running.close()
    assert client.post(path, json=BODIES[path]).status_code == 200


def test_a_request_that_finds_the_disk_full_says_so() -> None:
    backend = TightBackend()
    backend.error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    client = create_app(make_models(backend), ServerSettings()).test_client()
    response = client.post("/v1/chat/completions", json=CHAT)
    assert response.status_code == 507 and "disk is full: free some" in response.json["error"]["message"]


def test_a_panic_during_neodims_request_is_a_neodim_error() -> None:
    client = create_app(make_models(PanickingBackend()), ServerSettings()).test_client()
    response = client.post("/generate", json=NEODIM)
    assert response.status_code == 500
    assert response.json["error"].startswith("Internal: an unexpected error occurred")
