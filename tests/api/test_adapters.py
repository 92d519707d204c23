"""Adapters from the Hub and from LORA_ADAPTERS, with a Hub on this machine."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from flask.testing import FlaskClient
from safetensors.torch import save_file

from api import create_app
from api.adapters import FetchAdapter, load_adapters
from api.services import Services
from hub.client import Hub
from hub.fetch_adapter import fetch_adapter
from inference.errors import short
from settings.groups import ServerSettings
from tests.fakes import fake_hub
from tests.fakes.fake_backend import FakeAdapters, FakeBackend, make_models


@pytest.fixture
def backend() -> FakeBackend:
    backend = FakeBackend()
    backend.lora = FakeAdapters()
    return backend


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "poet"
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    (folder / "adapter_model.safetensors").write_bytes(bytes(3000))
    return folder


@pytest.fixture
def hub(folder: Path) -> Iterator[fake_hub.FakeHub]:
    with fake_hub.running() as hub:
        hub.repos["acme/poet"] = fake_hub.Repo(folder)
        yield hub


@pytest.fixture
def fetch(hub: fake_hub.FakeHub, tmp_path: Path) -> FetchAdapter:
    return partial(fetch_adapter, Hub(hub.url, tmp_path / "cache"), offline=False)


@pytest.fixture
def client(backend: FakeBackend, fetch: FetchAdapter, tmp_path: Path) -> FlaskClient:
    settings = ServerSettings(adapter_dirs=(str(tmp_path / "fence"),))
    return create_app(make_models(backend), settings, services=Services(fetch_adapter=fetch)).test_client()


def load(client: FlaskClient, source: str) -> tuple[int, str]:
    reply = client.post("/v1/load_lora_adapter", json={"lora_name": "mine", "lora_path": source})
    return reply.status_code, reply.text


def test_an_adapter_of_the_hub_is_fetched_and_loaded(
    client: FlaskClient, backend: FakeBackend, hub: fake_hub.FakeHub
) -> None:
    assert load(client, "acme/poet")[0] == 200
    ((name, folder),) = backend.lora.loads
    assert name == "mine" and len((folder / "adapter_model.safetensors").read_bytes()) == 3000
    assert backend.lora.cards()[0].source == "acme/poet"


@pytest.mark.parametrize(
    "source",
    [
        "/etc",
        "../poet",
        "acme/poet/x",
        "http://host/acme",
        "acme/poet@../x",
        "datasets/acme/x",
        "poet",
        "~/x",
    ],
)
def test_no_other_source_is_looked_up_on_the_hub(
    client: FlaskClient, hub: fake_hub.FakeHub, source: str
) -> None:
    status, text = load(client, source)
    assert status == 400 and "must be the folder of an adapter below ADAPTER_DIRS" in text
    assert hub.requests == []


def test_a_refusal_of_the_hub_names_no_folder_of_this_machine(
    client: FlaskClient, backend: FakeBackend, hub: fake_hub.FakeHub, tmp_path: Path
) -> None:
    status, text = load(client, "acme/none")
    assert status == 400 and "(no such model, or a private one)" in text
    hub.broken = 500
    status, text = load(client, "acme/other")
    assert status == 400 and "answers 500" in text
    assert str(tmp_path) not in text and backend.lora.loads == []


def test_a_cache_that_cannot_be_written_is_not_shown(
    client: FlaskClient, hub: fake_hub.FakeHub, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("no folder")
    status, text = load(client, "acme/poet")
    assert status == 400 and "it could not be fetched: the server's log says why" in text
    assert str(tmp_path) not in text


def test_adapters_are_loaded_at_the_start_from_anywhere(
    backend: FakeBackend, folder: Path, fetch: FetchAdapter
) -> None:
    models = make_models(backend)
    assert load_adapters(models, (f"mine={folder}", "acme/poet", str(folder)), fetch) == ""
    assert [card.name for card in backend.lora.cards()] == ["mine", "acme/poet", "poet"]


@pytest.mark.parametrize(
    ("base_name", "is_warned"),
    [
        ("", False),
        ("fake/model", False),
        ("/data/other--Model-4bit", False),
        ("other/llama", True),
        (7, True),
    ],
)
def test_an_adapter_that_names_another_model_is_a_warning(
    client: FlaskClient,
    backend: FakeBackend,
    folder: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    base_name: object,
    is_warned: bool,
) -> None:
    config = {"peft_type": "LORA", "base_model_name_or_path": base_name}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    (tmp_path / "fence").mkdir()
    folder.rename(tmp_path / "fence" / "poet")
    assert load(client, "poet")[0] == 200
    words = f"adapter=mine was trained over {short(str(base_name))}, and is served over fake/model"
    assert (words in caplog.text) == is_warned


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ("mine=/none", "mine=/none: /none is neither a folder nor owner/name on the Hub"),
        ("acme/none", "acme/none: no such model, or a private one: "),
        ("model=acme/poet", "model=acme/poet: lora_name is a name of the model"),
    ],
)
def test_an_adapter_that_cannot_be_served_is_the_reason_to_end(
    backend: FakeBackend, fetch: FetchAdapter, item: str, reason: str
) -> None:
    assert load_adapters(make_models(backend), (item,), fetch).startswith(reason)


def test_a_model_without_adapters_is_a_reason_to_end(folder: Path) -> None:
    reason = load_adapters(make_models(FakeBackend()), (f"mine={folder}",), None)
    assert reason == f"mine={folder}: this model is served without adapters"


def test_a_scale_of_the_start_counts_in_requests_that_name_no_adapter(backend: FakeBackend) -> None:
    backend.lora = FakeAdapters("poet")
    settings = ServerSettings(lora_adapters=("poet=/data/poet*1",))
    client = create_app(make_models(backend), settings).test_client()
    assert client.get("/lora-adapters").get_json()[0]["scale"] == 1.0
    assert client.post("/v1/completions", json={"prompt": "hi"}).status_code == 200
    assert client.post("/lora-adapters", json=[]).status_code == 200
    assert client.post("/v1/completions", json={"prompt": "hi"}).status_code == 200
    assert [request.adapter for request in backend.requests] == ["poet", None]


def test_an_adapter_that_cannot_be_scaled_is_a_reason_to_end(backend: FakeBackend, folder: Path) -> None:
    weights = {"lora_A.weight": torch.ones(2, 4), "lora_B.weight": torch.ones(4, 2)}
    dora = weights | {"lora_magnitude_vector": torch.ones(4)}
    tensors = {f"base_model.model.layer.{name}": tensor for name, tensor in dora.items()}
    save_file(tensors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 2, "lora_alpha": 2}')
    reason = load_adapters(make_models(backend), (f"mine={folder}*0.5",), None)
    assert "lora_magnitude_vector, and only pairs of linear layers can be scaled" in reason
    assert load_adapters(make_models(backend), (f"other={folder}*1",), None) == ""
