"""Errors that Flask raises are rendered by the blueprint's renderer, with a fitting status."""

import pytest
from flask import Blueprint, Flask, abort

from api.errors import render_errors


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
