"""The largest body of each route: what the route declares, MAX_BODY_MB, or little where no body is read."""

import pytest
from flask import Flask

from api import create_app
from api.hooks.body_limits import UNUSED_BODY_BYTES, make_body_limit
from api.openapi.operation import Operation, attach_operation
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models

DEFAULT = 10 * UNUSED_BODY_BYTES
DECLARED = 100 * UNUSED_BODY_BYTES


@pytest.fixture(scope="module")
def upload_app() -> Flask:
    app = create_app(make_models(FakeBackend()), ServerSettings())
    view = attach_operation(lambda name: name, Operation("Store a file", body=bytes, body_limit=DECLARED))
    app.add_url_rule("/files/<path:name>", "files", view, methods=["POST", "PUT", "GET"])
    return app


@pytest.mark.parametrize(
    ("method", "path", "limit"),
    [
        ("POST", "/v1/chat/completions", DEFAULT),
        ("POST", "/v1/chat/completions/", DEFAULT),
        ("POST", "//v1/chat/completions", DEFAULT),
        ("POST", "/generate", DEFAULT),
        ("POST", "/ping", UNUSED_BODY_BYTES),
        ("POST", "/files/a/é", DECLARED),
        ("PUT", "/files/a", DECLARED),
        ("GET", "/files/a", UNUSED_BODY_BYTES),
        ("OPTIONS", "/files/a", UNUSED_BODY_BYTES),
        ("DELETE", "/files/a", UNUSED_BODY_BYTES),
        ("POST", "/files/", UNUSED_BODY_BYTES),
        ("POST", "/nowhere", UNUSED_BODY_BYTES),
        ("POST", "/", DEFAULT),
        ("POST", "*", UNUSED_BODY_BYTES),
        ("POST", "/llm/generate", UNUSED_BODY_BYTES),
        ("GET", "/health", UNUSED_BODY_BYTES),
        ("HEAD", "/health", UNUSED_BODY_BYTES),
        ("POST", "/health", UNUSED_BODY_BYTES),
    ],
)
def test_each_route_has_its_limit(upload_app: Flask, method: str, path: str, limit: int) -> None:
    assert make_body_limit(upload_app, DEFAULT)(method, path) == limit


@pytest.mark.parametrize("path", ["/generate", "/llm/generate"])
def test_a_limit_is_found_with_and_without_root_path(app: Flask, path: str) -> None:
    assert make_body_limit(app, DEFAULT, "/llm")("POST", path) == DEFAULT
    assert make_body_limit(app, DEFAULT, "/llm")("POST", f"/llm/llm{path}") == UNUSED_BODY_BYTES


@pytest.mark.parametrize("path", ["/generate", "/generate/", "//generate", "/%67enerate", "/x", "/", "/ping"])
def test_the_route_is_the_one_that_answers(app: Flask, path: str) -> None:
    """Both find the same: a limit other than the one for unknown paths, and an answer other than 404."""
    response = app.test_client().post(path)
    is_route = response.status_code not in (404, 405)
    limit = make_body_limit(app, 1)("POST", path.replace("%67", "g"))
    assert (limit == 1) == (is_route and path != "/ping")
