"""The API's document: right by its specification, complete, and true of what the routes take and give."""

from typing import Any

import pytest
from flask import Flask
from openapi_spec_validator import validate

from api import create_app
from api.operation import of
from api.settings import AppSettings
from inference.metrics import Metrics
from tests.fake_backend import FakeBackend

PAGES = {"playground.page", "playground.file", "openapi.docs", "openapi.file"}


@pytest.fixture(scope="module")
def app() -> Flask:
    return create_app(FakeBackend(), AppSettings(), Metrics())


@pytest.fixture(scope="module")
def document(app: Flask) -> dict[str, Any]:
    return app.test_client().get("/openapi.json").json


def test_the_document_is_right_by_its_specification(document: dict[str, Any]) -> None:
    validate(document)


def test_every_route_but_a_page_is_told(app: Flask) -> None:
    silent = {
        rule.endpoint for rule in app.url_map.iter_rules() if of(app.view_functions[rule.endpoint]) is None
    }
    assert silent - PAGES == set()


def test_operations_have_names_of_their_own(document: dict[str, Any]) -> None:
    names = [route["operationId"] for methods in document["paths"].values() for route in methods.values()]
    assert len(names) == len(set(names))


def test_every_post_tells_what_it_takes(document: dict[str, Any]) -> None:
    posts = {path: methods["post"] for path, methods in document["paths"].items() if "post" in methods}
    refused = {path for path, route in posts.items() if route["summary"].startswith("Answers ")}
    silent = [path for path, route in posts.items() if "requestBody" not in route and path not in refused]
    assert silent in ([], ["/ping"])


def test_the_document_is_at_the_path_of_tgi_too(app: Flask, document: dict[str, Any]) -> None:
    assert app.test_client().get("/api-doc/openapi.json").json == document


@pytest.mark.parametrize("path", ["/docs", "/docs/docs.js", "/docs/docs.css", "/docs/schema.js"])
def test_the_page_is_served_from_here(app: Flask, path: str) -> None:
    response = app.test_client().get(path)
    assert response.status_code == 200
    assert "://" not in response.text


def test_a_slash_too_many_leads_to_the_page(app: Flask) -> None:
    response = app.test_client().get("/docs/")
    assert (response.status_code, response.location) == (302, "../docs")
