"""SGLang's routes that load and unload adapters."""

from pathlib import Path

import pytest
from flask.testing import FlaskClient

from api import create_app
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeAdapters, FakeBackend, make_models

LOAD, UNLOAD = "/load_lora_adapter", "/unload_lora_adapter"


@pytest.fixture
def client(tmp_path: Path) -> FlaskClient:
    (tmp_path / "cook").mkdir()
    (tmp_path / "cook" / "adapter_config.json").write_text("{}")
    backend = FakeBackend()
    backend.lora = FakeAdapters("poet")
    return create_app(make_models(backend), ServerSettings(adapter_dirs=(str(tmp_path),))).test_client()


def test_every_answer_lists_the_adapters(client: FlaskClient) -> None:
    reply = client.post(LOAD, json={"lora_name": "cook", "lora_path": "cook", "pinned": False})
    loaded = {"poet": "/adapters/poet", "cook": "cook"}
    assert (reply.status_code, reply.get_json()) == (
        200,
        {"success": True, "error_message": None, "loaded_adapters": loaded},
    )
    reply = client.post(UNLOAD, json={"lora_name": "poet"})
    assert reply.get_json() == {
        "success": True,
        "error_message": None,
        "loaded_adapters": {"cook": "cook"},
    }


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (
            LOAD,
            {"lora_name": "poet", "lora_path": "cook"},
            "lora_name is the name of a loaded adapter: unload",
        ),
        (LOAD, {"lora_name": "x", "lora_path": "/etc"}, "lora_path must be the folder of an adapter below"),
        (LOAD, {"lora_name": "model", "lora_path": "cook"}, "lora_name is a name of the model"),
        (LOAD, {"lora_name": "x"}, "lora_path is required"),
        (UNLOAD, {"lora_name": "none"}, "lora_name is not the name of a loaded adapter, got 'none'"),
        (UNLOAD, {"lora_name": 7}, "lora_name must be"),
    ],
)
def test_a_refusal_changes_nothing(
    client: FlaskClient, path: str, body: dict[str, object], message: str
) -> None:
    reply = client.post(path, json=body)
    value = reply.get_json()
    assert (reply.status_code, value["success"]) == (400, False)
    assert value["error_message"].startswith(message)
    assert value["loaded_adapters"] == {"poet": "/adapters/poet"}


def test_without_a_key_the_adapters_are_not_listed() -> None:
    backend = FakeBackend()
    backend.lora = FakeAdapters("poet")
    client = create_app(make_models(backend), ServerSettings(api_keys=("sesame",))).test_client()
    reply = client.post(UNLOAD, json={"lora_name": "poet"})
    assert (reply.status_code, reply.get_json()["loaded_adapters"]) == (401, {})
    assert len(backend.lora.cards()) == 1
