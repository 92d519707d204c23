"""Paths that two dialects share: the body decides the dialect, and also the dialect of its errors."""

from typing import Any

import pytest
from flask.testing import FlaskClient

NEODIM = {"prompt": "Hi", "generated_tokens_count": 2, "max_total_tokens": 20}
USER = {"role": "user", "content": "hi"}

BODIES: list[tuple[str, dict[str, Any], str]] = [
    ("/generate", {"inputs": "Hi"}, "generated_text"),
    ("/generate", NEODIM, "sequences"),
    ("/tokenize", {"prompt": "Hi"}, "count"),
    ("/tokenize", {"messages": [USER]}, "count"),
    ("/invocations", {"prompt": "Hi"}, "choices"),
    ("/invocations", {"messages": [USER]}, "choices"),
]


@pytest.mark.parametrize(("path", "body", "field"), BODIES)
def test_the_body_decides_the_dialect(
    client: FlaskClient, path: str, body: dict[str, Any], field: str
) -> None:
    response = client.post(path, json=body)
    assert response.status_code == 200
    assert field in response.json


@pytest.mark.parametrize("path", ["/tokenize", "/invocations"])
def test_a_body_with_inputs_goes_to_tgi(client: FlaskClient, path: str) -> None:
    assert isinstance(client.post(path, json={"inputs": "Hi"}).json, list)


def test_inputs_take_precedence_over_other_fields(client: FlaskClient) -> None:
    assert "generated_text" in client.post("/generate", json=NEODIM | {"inputs": "Hi"}).json


@pytest.mark.parametrize(
    ("path", "body", "shape"),
    [
        ("/generate", {}, "tgi"),
        ("/generate", {"inputs": 5}, "tgi"),
        ("/generate", [], "tgi"),
        ("/generate/", {}, "tgi"),
        ("/generate", {"generated_tokens_count": "many", "max_total_tokens": 5}, "neodim"),
        ("/generate", {"prompt": "Hi", "max_total_tokens": 5}, "neodim"),
        ("/generate/", {"generated_tokens_count": 1}, "neodim"),
        ("/tokenize", {}, "openai"),
        ("/tokenize/", {}, "openai"),
        ("/tokenize", {"inputs": 5}, "tgi"),
        ("/invocations", {}, "openai"),
        ("/invocations", {"inputs": 5}, "tgi"),
        ("/invocations", {"prompt": "hi", "n": "two"}, "openai"),
    ],
)
def test_an_error_is_in_the_dialect_of_its_body(
    client: FlaskClient, path: str, body: Any, shape: str
) -> None:
    response = client.post(path, json=body)
    error, type = response.json["error"], response.json.get("error_type")
    assert 400 <= response.status_code < 500 or shape == "neodim"
    dialect = "openai" if isinstance(error, dict) else "tgi" if type else "neodim"
    assert dialect == shape


@pytest.mark.parametrize(("path", "shape"), [("/generate", str), ("/tokenize", dict), ("/invocations", dict)])
def test_a_body_that_is_not_json_is_refused_by_the_default_dialect(
    client: FlaskClient, path: str, shape: type
) -> None:
    for data, kind in (("{", "application/json"), ("a,b", "text/csv")):
        response = client.post(path, data=data, content_type=kind)
        assert response.status_code in (400, 415)
        assert isinstance(response.json["error"], shape)


def test_a_shared_path_accepts_only_posts(client: FlaskClient) -> None:
    response = client.get("/generate")
    assert (response.status_code, response.json["error_type"]) == (405, "method_not_allowed")
