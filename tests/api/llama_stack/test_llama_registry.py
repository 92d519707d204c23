"""Models, health, version, providers and routes, as each version of clients requests them."""

import pytest
from flask.testing import FlaskClient

from api import create_app
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models

CARD = {
    "identifier": "fake/model",
    "provider_resource_id": "fake/model",
    "provider_id": "local",
    "type": "model",
    "model_type": "llm",
    "llama_model": "fake/model",
    "id": "fake/model",
    "object": "model",
    "created": 1700000000,
    "custom_metadata": {
        "model_type": "llm",
        "provider_id": "local",
        "provider_resource_id": "fake/model",
        "context": 128,
        "embedding_dimension": 4,
    },
}
UNKNOWN = ["/models/get?identifier=x", "/alpha/models/get?identifier=x", "/v1/models/a/x"]


@pytest.mark.parametrize("path", ["/models/list", "/alpha/models/list"])
def test_older_clients_get_an_array_of_models(client: FlaskClient, path: str) -> None:
    response = client.get(path, headers={"Accept": "application/jsonl"})
    assert response.mimetype == "application/json"
    (card,) = response.get_json()
    assert card | CARD == card


def test_newer_clients_and_openais_get_models_as_data(client: FlaskClient) -> None:
    reply = client.get("/v1/models").get_json()
    assert reply["object"] == "list"
    (card,) = reply["data"]
    assert card | CARD == card


@pytest.mark.parametrize(
    "path",
    [
        "/models/get?identifier=fake/model",
        "/models/get?core_model_id=fake%2Fmodel",
        "/alpha/models/get?identifier=fake/model",
        "/v1/models/fake/model",
        "/v1/models/fake%2Fmodel",
    ],
)
def test_a_model_is_looked_up_by_its_name(client: FlaskClient, path: str) -> None:
    card = client.get(path).get_json()
    assert card | CARD == card


@pytest.mark.parametrize("path", UNKNOWN)
def test_an_unknown_model_is_not_found(client: FlaskClient, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 404
    assert "fake/model" in response.get_json()["error"]["message"]


def test_a_model_look_up_needs_a_name(client: FlaskClient) -> None:
    assert client.get("/models/get").status_code == 400


def test_aliases_are_listed_with_the_model(backend: FakeBackend) -> None:
    client = create_app(make_models(backend, "alias"), ServerSettings()).test_client()
    cards = client.get("/v1/models").get_json()["data"]
    assert [(card["id"], card["provider_resource_id"]) for card in cards] == [
        ("fake/model", "fake/model"),
        ("alias", "fake/model"),
    ]
    assert client.get("/v1/models/alias").get_json()["identifier"] == "alias"


@pytest.mark.parametrize("path", ["/health", "/alpha/health", "/v1/health"])
def test_health_is_exactly_ok(client: FlaskClient, path: str) -> None:
    assert client.get(path).get_json() == {"status": "OK"}


def test_the_version_is_the_servers_own(client: FlaskClient) -> None:
    assert client.get("/v1/version").get_json() == {"version": "0.2.12"}


@pytest.mark.parametrize("path", ["/providers/list", "/alpha/providers/list"])
def test_older_clients_get_providers_by_api(client: FlaskClient, path: str) -> None:
    reply = client.get(path).get_json()
    assert reply == {"inference": [{"provider_id": "local", "provider_type": "inline::hearth"}]}


@pytest.mark.parametrize("path", ["/v1/providers", "/v1/inspect/providers"])
def test_newer_clients_get_providers_as_data(client: FlaskClient, path: str) -> None:
    provider = {
        "api": "inference",
        "provider_id": "local",
        "provider_type": "inline::hearth",
        "config": {},
        "health": {"status": "OK"},
    }
    assert client.get(path).get_json() == {"data": [provider]}
    assert client.get("/v1/providers/local").get_json() == provider
    assert client.get("/v1/providers/nope").status_code == 404


def test_routes_are_those_of_the_requested_protocol_version(client: FlaskClient) -> None:
    new = client.get("/v1/inspect/routes").get_json()["data"]
    old = client.get("/alpha/routes/list").get_json()["inference"]
    assert {"/v1/inference/completion", "/v1/inference/chat-completion"} <= {route["route"] for route in new}
    assert all(route["route"].startswith("/alpha/") for route in old)
    assert {route["method"] for route in new} == {"GET", "POST", "DELETE"}
