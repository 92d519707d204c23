"""The OpenAPI document: valid, complete, ordered; and the page that shows it."""

import re
from typing import Any

import pytest
from flask import Flask
from openapi_spec_validator import validate

from api import create_app
from api.openapi import FIRST_PATHS
from api.openapi.operation import operation_of
from inference.metrics import Metrics
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models

PAGES = {
    "playground.page",
    "playground.file",
    "playground.neodims_page",
    "tuning.page",
    "tuning.file",
    "openapi.docs",
    "openapi.file",
    "doc_pages.page",
    "doc_pages.index",
}


@pytest.fixture(scope="module")
def app() -> Flask:
    return create_app(make_models(FakeBackend()), ServerSettings(), Metrics())


@pytest.fixture(scope="module")
def document(app: Flask) -> dict[str, Any]:
    return app.test_client().get("/openapi.json").json


def test_the_document_is_valid_by_its_specification(document: dict[str, Any]) -> None:
    validate(document)


def test_every_route_except_pages_is_documented(app: Flask) -> None:
    undocumented = {
        rule.endpoint
        for rule in app.url_map.iter_rules()
        if operation_of(app.view_functions[rule.endpoint]) is None
    }
    assert undocumented - PAGES == set()


def test_operation_ids_are_unique(document: dict[str, Any]) -> None:
    names = [route["operationId"] for methods in document["paths"].values() for route in methods.values()]
    assert len(names) == len(set(names))


def test_every_post_documents_its_body(document: dict[str, Any]) -> None:
    posts = {path: methods["post"] for path, methods in document["paths"].items() if "post" in methods}
    refused = {path for path, route in posts.items() if route["summary"].startswith("Answers ")}
    undocumented = [
        path for path, route in posts.items() if "requestBody" not in route and path not in refused
    ]
    names = r"/v1(/openai/v1)?/(responses|fine_tuning/jobs|batches)|/v1alpha/post-training/jobs"
    actions = re.compile(rf"({names})/{{\w+}}/(cancel|pause|resume)|/api/v1/.*/publish|/sleep|/wake_up")
    assert [path for path in undocumented if not actions.fullmatch(path)] == ["/ping"]


def test_the_most_used_routes_come_first(document: dict[str, Any]) -> None:
    paths = list(document["paths"])
    assert paths[:2] == ["/v1/chat/completions", "/v1/completions"]
    known = {re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", path) for path in FIRST_PATHS}
    assert set(paths[: len(known)]) == known


def test_routes_that_only_refuse_come_last(document: dict[str, Any]) -> None:
    routes = [route for methods in document["paths"].values() for route in methods.values()]
    refuses = [route["summary"].startswith("Answers ") for route in routes]
    assert any(refuses) and refuses == sorted(refuses)
    assert refuses == ["200" not in route["responses"] for route in routes]
    assert refuses == [route["tags"] == ["Not supported"] for route in routes]


def test_required_fields_come_first_and_shared_ones_last(document: dict[str, Any]) -> None:
    names = list(document["components"]["schemas"]["ChatCompletionRequest"]["properties"])
    places = [names.index(name) for name in ("messages", "tools", "temperature", "guided_json")]
    assert places == sorted(places) and places[0] == 0


def test_every_tag_has_a_description(document: dict[str, Any]) -> None:
    assert all(tag["description"] for tag in document["tags"])


def test_the_document_is_also_at_the_path_of_tgi(app: Flask, document: dict[str, Any]) -> None:
    assert app.test_client().get("/api-doc/openapi.json").json == document


@pytest.mark.parametrize("path", ["/docs", "/docs/docs.js", "/docs/docs.css", "/docs/schema.js"])
def test_the_page_loads_nothing_from_other_sites(app: Flask, path: str) -> None:
    response = app.test_client().get(path)
    assert response.status_code == 200
    assert "://" not in response.text


def test_a_trailing_slash_redirects_to_the_page(app: Flask) -> None:
    response = app.test_client().get("/docs/")
    assert (response.status_code, response.location) == (302, "../docs")


def test_the_fields_of_a_request_have_descriptions(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    request = schemas["NeodimRequest"]
    assert request["description"] == (
        "A request to continue a prompt. In sampling options, 0 and null mean off."
    )
    described = [name for name, field in request["properties"].items() if field.get("description")]
    assert described == list(request["properties"])
    assert request["properties"]["tfs"]["description"] == "limits on the tokens to sample from"
    assert schemas["ChatCompletionRequest"]["properties"]["max_tokens"]["description"] == (
        "limits of each answer"
    )


def test_no_description_contains_a_field_table(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"].items()
    tables = [
        name for name, schema in schemas if re.search(r"^\w+ {2,}\w", schema.get("description", ""), re.M)
    ]
    assert tables == []
