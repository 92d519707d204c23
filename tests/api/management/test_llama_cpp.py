"""llama.cpp's list of adapters with scales, and `lora` in completions and chats."""

from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from api.hooks.adapter_sums import MAX_SUMS
from settings.groups import ServerSettings
from tests.api.openai.app_requests import CHATS, COMPLETIONS, body_for, refusal
from tests.fakes.fake_backend import FakeAdapters, FakeBackend, make_models
from tests.lora.peft_adapters import save_adapter

PATH = "/lora-adapters"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    home = tmp_path_factory.mktemp("adapters")
    return [save_adapter(home / str(seed), "llama", seed, target_modules=["q_proj"]) for seed in (1, 2)]


@pytest.fixture
def backend(folders: list[Path]) -> FakeBackend:
    backend = FakeBackend()
    backend.lora = FakeAdapters()
    for name, folder in zip(("poet", "cook"), folders, strict=True):
        backend.lora.load(name, folder, f"{name}/source")
    return backend


@pytest.fixture
def client(backend: FakeBackend) -> FlaskClient:
    return create_app(make_models(backend), ServerSettings()).test_client()


def adapter_of(client: FlaskClient, backend: FakeBackend, path: str = COMPLETIONS, **fields: Any) -> Any:
    """The adapter that answers a request."""
    reply = client.post(path, json=body_for(path, **fields))
    assert reply.status_code == 200, reply.text
    assert reply.get_json()["model"] == fields.get("model", "fake/model")
    return backend.requests[-1].adapter


def names(client: FlaskClient) -> list[str]:
    return [card["id"] for card in client.get("/v1/models").get_json()["data"]]


@pytest.mark.parametrize("path", [COMPLETIONS, CHATS])
def test_one_adapter_of_scale_1_is_itself(client: FlaskClient, backend: FakeBackend, path: str) -> None:
    assert adapter_of(client, backend, path, lora=[{"id": 1, "scale": 1.0}]) == "cook"
    assert adapter_of(client, backend, path, lora=[{"id": 1, "scale": 1}, {"id": 0, "scale": 0}]) == "cook"
    for lora in ([], [{"id": 0, "scale": 0.0}]):
        assert adapter_of(client, backend, path, lora=lora) is None


def test_a_sum_is_made_once_and_not_listed(client: FlaskClient, backend: FakeBackend) -> None:
    lora = [{"id": 0, "scale": 0.5}, {"id": 1, "scale": -1.5}]
    name = adapter_of(client, backend, lora=lora)
    assert adapter_of(client, backend, lora=lora[::-1]) == name
    assert adapter_of(client, backend, lora=[{"id": 0, "scale": 0.25}]) != name
    assert names(client) == ["fake/model", "poet", "cook"]
    assert [each["name"] for each in client.get(PATH).get_json()] == ["poet", "cook"]
    assert len([each for each, _ in backend.lora.loads if each == name]) == 1


def test_another_load_of_an_adapter_has_other_sums(
    client: FlaskClient, backend: FakeBackend, folders: list[Path]
) -> None:
    lora = [{"id": 0, "scale": 0.5}]
    before = adapter_of(client, backend, lora=lora)
    backend.lora.load("poet", folders[1], "poet/source", replace=True)
    assert adapter_of(client, backend, lora=lora) != before


def test_the_least_used_sums_are_removed(client: FlaskClient, backend: FakeBackend) -> None:
    first = adapter_of(client, backend, lora=[{"id": 0, "scale": 0.5}])
    sums = [adapter_of(client, backend, lora=[{"id": 0, "scale": 2.0 + i}]) for i in range(MAX_SUMS)]
    loaded = {card.name for card in backend.lora.cards()}
    assert loaded == {"poet", "cook", *sums} and first not in loaded
    assert not dict(backend.lora.loads)[first].exists()


def test_default_scales_are_set_for_requests_that_name_no_adapter(
    client: FlaskClient, backend: FakeBackend
) -> None:
    assert client.get(PATH).get_json() == [
        {"id": 0, "name": "poet", "path": "poet/source", "scale": 0.0},
        {"id": 1, "name": "cook", "path": "cook/source", "scale": 0.0},
    ]
    assert client.post(PATH, json=[{"id": 0, "scale": 1.0}]).get_json() == {"success": True}
    assert [each["scale"] for each in client.get(PATH).get_json()] == [1.0, 0.0]
    assert adapter_of(client, backend) == adapter_of(client, backend, CHATS) == "poet"
    assert adapter_of(client, backend, model="cook") == "cook"
    assert adapter_of(client, backend, lora=[]) is None
    backend.lora.unload("poet")
    assert adapter_of(client, backend) is None
    assert client.post(PATH, json=[]).get_json() == {"success": True}


@pytest.mark.parametrize(
    ("lora", "message"),
    [
        ([{"id": 2, "scale": 1}], "lora[0].id must be an id that GET /lora-adapters lists, got 2"),
        ([{"id": -1, "scale": 1}], "lora[0].id must be an id that GET /lora-adapters lists, got -1"),
        ([{"id": 0, "scale": 1e9}], "lora[0].scale must be -100 to 100, got 1000000000.0"),
    ],
)
def test_scales_that_cannot_be_served_are_refused(
    client: FlaskClient, backend: FakeBackend, lora: list[Any], message: str
) -> None:
    refusal(client.post(COMPLETIONS, json=body_for(COMPLETIONS, lora=lora)), 400, message, "BadRequestError")
    reply = client.post(PATH, json=lora)
    error = {"code": 400, "message": message.removeprefix("lora"), "type": "invalid_request_error"}
    assert (reply.status_code, reply.get_json()) == (400, {"error": error})
    assert backend.requests == []


def test_an_adapter_and_scales_exclude_each_other(client: FlaskClient) -> None:
    message = "lora has scales, and an adapter is named too: send one of both"
    for fields in ({"model": "poet"}, {"lora_path": "poet"}):
        body = body_for(COMPLETIONS, lora=[{"id": 0, "scale": 1}], **fields)
        refusal(client.post(COMPLETIONS, json=body), 400, message, "BadRequestError")


@pytest.mark.parametrize("body", [{}, 7, None, [7], [{"id": 0}], [{"id": "x", "scale": 1}]])
def test_a_malformed_list_is_refused(client: FlaskClient, body: Any) -> None:
    reply = client.post(PATH, json=body)
    assert (reply.status_code, reply.get_json()["error"]["type"]) == (400, "invalid_request_error")
