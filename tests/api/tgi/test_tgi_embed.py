"""POST /embed: the body and the answer of Text Embeddings Inference, the errors of TGI."""

import math
from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from inference.errors import Internal
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, embedding, make_models


def embed(client: FlaskClient, **body: Any) -> list[list[float]]:
    response = client.post("/embed", json=body)
    assert response.status_code == 200, response.text
    return response.get_json()


@pytest.mark.parametrize("inputs", ["a b", ["a b"], ["a", "b c"]])
def test_each_text_has_a_vector(client: FlaskClient, inputs: Any) -> None:
    texts = [inputs] if isinstance(inputs, str) else inputs
    assert embed(client, inputs=inputs) == [list(embedding(text).vector) for text in texts]


def test_options_that_are_null_change_nothing(client: FlaskClient) -> None:
    names = ("normalize", "dimensions", "truncate", "truncation_direction", "prompt_name")
    assert embed(client, inputs="a", **dict.fromkeys(names)) == embed(client, inputs="a")


def test_a_vector_can_keep_its_length_and_be_cut(client: FlaskClient, backend: FakeBackend) -> None:
    backend.embedding_sizes = (2, 4)
    raw = [value * embedding("a").norm for value in embedding("a").vector]
    assert embed(client, inputs="a", normalize=False) == [pytest.approx(raw)]
    scaled = [value / math.hypot(*raw[:2]) for value in raw[:2]]
    assert embed(client, inputs="a", dimensions=2) == [pytest.approx(scaled)]


@pytest.mark.parametrize(
    ("direction", "token_ids"),
    [(None, [0, 1]), ("right", [0, 1]), ("Right", [0, 1]), ("left", [1, 2]), ("Left", [1, 2])],
)
def test_a_long_text_is_cut_at_the_end_that_the_request_names(direction: Any, token_ids: list[int]) -> None:
    settings = ServerSettings(max_input_tokens=2)
    client = create_app(make_models(FakeBackend()), settings).test_client()
    vectors = embed(client, inputs="a b c", truncate=True, truncation_direction=direction)
    assert vectors == [list(embedding(token_ids).vector)]
    assert embed(client, inputs="a b c") == [list(embedding("a b c").vector)]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "Failed to deserialize the JSON body into the target type: `inputs` is required"),
        ({"inputs": ""}, "Input validation error: `inputs` cannot be empty"),
        ({"inputs": []}, "Input validation error: `inputs` cannot be empty"),
        (
            {"inputs": ["a"] * 2049},
            "Input validation error: `inputs` may hold at most 2048 texts. Given: 2049",
        ),
        ({"inputs": ["a", ""]}, "Input validation error: `inputs` cannot be empty"),
        (
            {"inputs": "a", "dimensions": 2},
            "Input validation error: `dimensions` must be 4, the only size of this model's embeddings, got 2",
        ),
        (
            {"inputs": "a", "prompt_name": "query"},
            "Input validation error: `prompt_name` must be null: write the prompt in front of `inputs`",
        ),
    ],
)
def test_a_wrong_body_is_refused(client: FlaskClient, body: dict[str, Any], message: str) -> None:
    response = client.post("/embed", json=body)
    assert response.status_code == 422
    assert response.get_json() == {"error": message, "error_type": "validation"}


def test_a_failure_is_tgis_error(client: FlaskClient, backend: FakeBackend) -> None:
    backend.error = Internal("the model's output for this request is not a number")
    response = client.post("/embed", json={"inputs": "a"})
    assert (response.status_code, response.get_json()["error_type"]) == (424, "generation")
