"""Adapters of two models behind one server: whose they are, and how a request chooses the model."""

from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from inference.models import ModelEntry, Models
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeAdapters, FakeBackend

VLLM, SGLANG = "/v1/load_lora_adapter", "/load_lora_adapter"
SMALL, LARGE, ELSEWHERE = "small", "large", "elsewhere"


@pytest.fixture
def backends() -> dict[str, FakeBackend]:
    """The default model has no adapters: it runs on another server."""
    backends = {name: FakeBackend(model_id=name) for name in (ELSEWHERE, SMALL, LARGE)}
    backends[SMALL].lora, backends[LARGE].lora = FakeAdapters("poet"), FakeAdapters("sailor")
    return backends


@pytest.fixture
def client(backends: dict[str, FakeBackend], tmp_path: Path) -> FlaskClient:
    (tmp_path / "cook").mkdir()
    (tmp_path / "cook" / "adapter_config.json").write_text("{}")
    models = Models(*(ModelEntry(each, (name,), is_remote=True) for name, each in backends.items()))
    return create_app(models, ServerSettings(adapter_dirs=(str(tmp_path),))).test_client()


def load(client: FlaskClient, path: str = VLLM, name: str = "cook", **fields: Any) -> tuple[int, str]:
    reply = client.post(path, json={"lora_name": name, "lora_path": "cook", **fields})
    return reply.status_code, reply.text


def parents(client: FlaskClient) -> dict[str, str]:
    cards = client.get("/v1/models").get_json()["data"]
    return {card["id"]: card["parent"] for card in cards if card["parent"]}


@pytest.mark.parametrize("path", [VLLM, SGLANG])
@pytest.mark.parametrize(("fields", "parent"), [({}, SMALL), ({"base_model_name": LARGE}, LARGE)])
def test_the_body_chooses_the_model(
    client: FlaskClient, path: str, fields: dict[str, str], parent: str
) -> None:
    assert load(client, path, **fields)[0] == 200
    assert parents(client) == {"poet": SMALL, "sailor": LARGE, "cook": parent}


def test_an_adapter_is_replaced_in_its_own_model(client: FlaskClient) -> None:
    assert load(client, name="sailor", load_inplace=True)[0] == 200
    assert parents(client) == {"poet": SMALL, "sailor": LARGE}


@pytest.mark.parametrize("path", ["/v1/unload_lora_adapter", "/unload_lora_adapter"])
def test_an_adapter_is_unloaded_from_its_own_model(client: FlaskClient, path: str) -> None:
    assert client.post(path, json={"lora_name": "sailor"}).status_code == 200
    assert client.delete("/v1/models/poet").status_code == 200
    assert parents(client) == {}


def test_every_answer_of_sglang_lists_the_adapters_of_all_models(client: FlaskClient) -> None:
    reply = client.post(SGLANG, json={"lora_name": "poet", "lora_path": "cook"})
    assert reply.get_json()["loaded_adapters"] == {"poet": "/adapters/poet", "sailor": "/adapters/sailor"}


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"base_model_name": "none"}, 404, "The model `none` does not exist"),
        ({"base_model_name": "poet"}, 400, "base_model_name must be a model, not an adapter, got 'poet'"),
        ({"base_model_name": ELSEWHERE}, 400, "this model is served without adapters"),
        ({"name": LARGE}, 400, "lora_name is a name of the model"),
        (
            {"name": "sailor", "base_model_name": SMALL, "load_inplace": True},
            400,
            "lora_name is an adapter of large: choose another one, got 'sailor'",
        ),
    ],
)
def test_a_refusal_changes_nothing(
    client: FlaskClient, fields: dict[str, Any], status: int, message: str
) -> None:
    actual, text = load(client, **fields)
    assert actual == status and message in text
    assert parents(client) == {"poet": SMALL, "sailor": LARGE}


def test_scales_are_those_of_the_model_that_adapters_are_for(client: FlaskClient) -> None:
    assert [each["path"] for each in client.get("/lora-adapters").get_json()] == ["/adapters/poet"]
    assert client.post("/lora-adapters", json=[{"id": 0, "scale": 1.0}]).status_code == 200
