"""The recorded exchanges of the original server, and a test client for any backend."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from inference.backend import Backend
from settings.groups import ServerSettings
from tests.fakes.fake_backend import make_models

VECTORS = Path(__file__).parents[2] / "vectors"

Ask = Callable[..., dict[str, Any]]


def vectors(name: str) -> list[dict[str, Any]]:
    return json.loads((VECTORS / "neodim_http.json").read_text())[name]


def client(backend: Backend, **settings: Any) -> FlaskClient:
    return create_app(make_models(backend), ServerSettings(**settings)).test_client()


def body(**fields: Any) -> dict[str, Any]:
    return {"prompt": "We had a nice chat.", "generated_tokens_count": 8, "max_total_tokens": 64, **fields}


@pytest.fixture
def ask() -> Ask:
    """ask(backend, field=value, …): the report of an answer that is not streamed; the request must
    succeed.
    """

    def generate(backend: Backend, **fields: Any) -> dict[str, Any]:
        response = client(backend).post("/generate", json=body(**fields))
        assert response.status_code == 200, response.text
        return response.get_json()

    return generate


def lines(backend: Backend, **fields: Any) -> list[dict[str, Any]]:
    """The lines of a streamed answer."""
    response = client(backend).post("/generate", json=body(stream=True, **fields))
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]
