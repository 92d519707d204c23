"""Embeddings in the request form of each protocol version."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, embedding, make_models

PATHS = ("/inference/embeddings", "/alpha/inference/embeddings", "/v1/inference/embeddings")


@pytest.fixture
def client() -> FlaskClient:
    return create_app(make_models(FakeBackend()), ServerSettings()).test_client()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("key", ["model", "model_id"])
def test_each_text_has_a_vector(client: FlaskClient, path: str, key: str) -> None:
    content = [{"type": "text", "text": "b"}]
    response = client.post(path, json={key: "fake/model", "contents": ["a", content]})
    assert response.status_code == 200
    vectors = [list(embedding(text).vector) for text in ("a", "b")]
    assert response.get_json() == {"embeddings": vectors}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"contents": ["a"]}, "model_id"),
        ({"model_id": "fake/model"}, "contents"),
        ({"model_id": "fake/model", "contents": []}, "contents"),
        ({"model_id": "fake/model", "contents": "a"}, "contents"),
        ({"model_id": "fake/model", "contents": [{"type": "image", "image": {}}]}, "contents[0]"),
        ({"model_id": "fake/model", "contents": ["a"], "output_dimension": 8}, "output_dimension"),
    ],
)
def test_a_wrong_body_is_refused_with_the_field(
    client: FlaskClient, body: dict[str, Any], field: str
) -> None:
    response = client.post("/v1/inference/embeddings", json=body)
    assert response.status_code == 400
    assert field in response.get_json()["error"]["message"]
