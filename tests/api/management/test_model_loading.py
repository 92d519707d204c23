"""llama.cpp's routes that load and unload models, and the status of models in lists."""

from dataclasses import replace

import pytest
from flask.testing import FlaskClient

from api import create_app
from api.services import Services
from inference.backend_info import ModelInfo
from inference.errors import NotFound
from inference.models import ModelEntry, Models
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend

LOADING = {"value": "loading", "detail": "30 %"}


class FakeLoader:
    """Notes the calls; knows the model acme/small alone."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def load(self, name: str) -> None:
        self.note(f"load {name}")

    def unload(self, name: str) -> None:
        self.note(f"unload {name}")

    def note(self, call: str) -> None:
        if not call.endswith("acme/small"):
            raise NotFound("it stays")
        self.calls.append(call)


class SleepingBackend(FakeBackend):
    def info(self) -> ModelInfo:
        return replace(super().info(), status="loading", status_detail="30 %")


@pytest.fixture
def models() -> Models:
    small, large = SleepingBackend(model_id="acme/small"), FakeBackend(model_id="acme/large")
    return Models(ModelEntry(small, ("acme/small", "fast")), ModelEntry(large, ("acme/large",)))


@pytest.fixture
def loader() -> FakeLoader:
    return FakeLoader()


@pytest.fixture
def client(models: Models, loader: FakeLoader) -> FlaskClient:
    return create_app(models, ServerSettings(), services=Services(model_loader=loader)).test_client()


def test_a_model_is_loaded_and_unloaded_by_any_of_its_names(client: FlaskClient, loader: FakeLoader) -> None:
    for path, name in (("load", "acme/small"), ("load", "fast"), ("unload", "small")):
        response = client.post(f"/models/{path}", json={"model": name})
        assert (response.status_code, response.json) == (200, {"success": True})
    assert loader.calls == ["load acme/small", "load acme/small", "unload acme/small"]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"model": "other"}, 404, "Model 'other' not found"),
        ({"model": "large"}, 404, "it stays"),
        ({}, 400, "model"),
    ],
)
def test_what_cannot_be_loaded_is_refused_with_its_reason(
    body: dict[str, str], status: int, message: str, client: FlaskClient
) -> None:
    response = client.post("/models/load", json=body)
    assert response.status_code == status and message in response.json["error"]["message"]


def test_without_a_loader_every_model_stays(models: Models) -> None:
    response = (
        create_app(models, ServerSettings()).test_client().post("/models/unload", json={"model": "fast"})
    )
    assert response.status_code == 404 and "loaded on demand" in response.json["error"]["message"]


def test_lists_show_whether_a_model_is_in_memory(client: FlaskClient) -> None:
    cards = client.get("/v1/models").json["data"]
    assert {card["id"]: card["status"] for card in cards} == {
        "acme/small": LOADING,
        "fast": LOADING,
        "acme/large": {"value": "loaded"},
    }


@pytest.mark.parametrize("path", ["/info", "/playground/status", "/health/ready"])
def test_every_status_has_all_models(path: str, client: FlaskClient) -> None:
    assert client.get(path).json["models"] == [
        {"model": "acme/small", "status": LOADING},
        {"model": "acme/large", "status": {"value": "loaded"}},
    ]


@pytest.mark.parametrize(("path", "field"), [("/info", "model_id"), ("/playground/status", "model")])
def test_a_status_is_about_the_model_that_is_named(path: str, field: str, client: FlaskClient) -> None:
    names = [client.get(f"{path}{query}").json[field] for query in ("", "?model=fast", "?model=large")]
    assert names == ["acme/small", "acme/small", "acme/large"]
    assert client.get(f"{path}?model=other").status_code == 404
