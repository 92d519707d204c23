"""vLLM's routes that load and unload adapters, model lists with adapters, and DELETE, byte for byte."""

import os
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from api.services import Services
from inference.errors import short
from inference.finding import Finding, Refused
from inference.lora.file_names import ADAPTER_FILES
from settings.groups import ServerSettings
from tests.api.openai.app_requests import CHATS, COMPLETIONS, RESPONSES, body_for, refusal
from tests.fakes.fake_backend import FakeAdapters, FakeBackend, make_models

LOAD, UNLOAD = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"
OUTSIDE = "must be the folder of an adapter below ADAPTER_DIRS"


@pytest.fixture
def backend() -> FakeBackend:
    backend = FakeBackend()
    backend.lora = FakeAdapters("poet")
    return backend


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of an adapter below the fence."""
    folder = tmp_path / "fence" / "cook"
    folder.mkdir(parents=True)
    for name in ADAPTER_FILES:
        (folder / name).write_text("{}")
    (tmp_path / "outside").mkdir()
    if os.name == "posix":
        (tmp_path / "fence" / "link").symlink_to(tmp_path / "outside")
    return folder


@pytest.fixture
def client(backend: FakeBackend, folder: Path) -> FlaskClient:
    settings = ServerSettings(adapter_dirs=(str(folder.parent),))
    return create_app(make_models(backend, "chat"), settings).test_client()


def names(client: FlaskClient) -> list[str]:
    return [card["id"] for card in client.get("/v1/models").get_json()["data"]]


def load(client: FlaskClient, path: object, name: str = "cook", **fields: Any) -> Any:
    return client.post(LOAD, json={"lora_name": name, "lora_path": str(path), **fields})


def test_an_adapter_is_loaded_answers_and_is_unloaded(
    client: FlaskClient, backend: FakeBackend, folder: Path
) -> None:
    reply = load(client, folder)
    assert (reply.status_code, reply.text) == (200, "Success: LoRA adapter 'cook' added successfully.")
    assert names(client) == ["fake/model", "chat", "poet", "cook"]
    for path in (COMPLETIONS, CHATS, RESPONSES):
        assert client.post(path, json=body_for(path, model="cook")).get_json()["model"] == "cook"
        assert backend.requests[-1].adapter == "cook"
    reply = client.post(UNLOAD, json={"lora_name": "cook"})
    assert (reply.status_code, reply.text) == (200, "Success: LoRA adapter 'cook' removed successfully.")
    message = "The model `cook` does not exist."
    for path in (COMPLETIONS, CHATS, RESPONSES):
        refusal(
            client.post(path, json=body_for(path, model="cook")), 404, message, "NotFoundError", "not_found"
        )


@pytest.mark.parametrize("path", ["cook", "{fence}/cook", "../fence/cook", "cook/"])
def test_a_path_below_the_fence_is_loaded(
    client: FlaskClient, backend: FakeBackend, folder: Path, path: str
) -> None:
    assert load(client, path.format(fence=folder.parent)).status_code == 200
    assert backend.lora.loads == [("cook", folder)]


@pytest.mark.parametrize(
    "path",
    ["{fence}", ".", "link", "../outside", "{fence}/../outside", "/etc", "/none", "x\0y", "acme/none", "~"],
)
def test_every_other_path_is_refused_in_the_same_words(
    client: FlaskClient, backend: FakeBackend, folder: Path, path: str
) -> None:
    path = path.format(fence=folder.parent)
    reply = load(client, path)
    refusal(reply, 400, f"lora_path {OUTSIDE}, got {short(path)}", "BadRequestError")
    assert reply.get_json()["error"]["param"] == "lora_path"
    assert backend.lora.loads == [] and names(client) == ["fake/model", "chat", "poet"]


@pytest.mark.parametrize(
    "name",
    ["-x", "a..b", "a b", "é", "x" * 201, "a/../b", "a\nb", "fake/model", "chat", "model", "tgi", "sum:1"],
)
def test_a_name_that_is_malformed_or_of_the_model_is_refused(
    client: FlaskClient, backend: FakeBackend, folder: Path, name: str
) -> None:
    reply = load(client, folder, name)
    error = reply.get_json()["error"]
    assert reply.status_code == 400
    assert error["message"].startswith(f"{error['param']} name") or error["param"] == "lora_name"
    assert backend.lora.loads == []


def test_a_taken_name_is_refused_unless_it_is_loaded_in_place(
    client: FlaskClient, backend: FakeBackend, folder: Path
) -> None:
    message = (
        "The lora adapter 'poet' has already been loaded. If you want to load the adapter in place, set "
        "'load_inplace' to True."
    )
    refusal(load(client, folder, "poet"), 400, message, "InvalidUserInput")
    before = backend.lora.cards()[0].number
    assert load(client, folder, "poet", load_inplace=True).status_code == 200
    (card,) = backend.lora.cards()
    assert card.number != before


@pytest.mark.parametrize(
    "body", [{}, {"lora_name": "x"}, {"lora_path": "x"}, {"lora_name": "", "lora_path": "x"}]
)
def test_a_missing_key_is_named(client: FlaskClient, body: dict[str, str]) -> None:
    message = "Both 'lora_name' and 'lora_path' must be provided."
    refusal(client.post(LOAD, json=body), 400, message, "InvalidUserInput")


def test_what_unloads_nothing_is_refused(client: FlaskClient) -> None:
    message = "'lora_name' needs to be provided to unload a LoRA adapter."
    refusal(client.post(UNLOAD, json={}), 400, message, "InvalidUserInput")
    message = "The lora adapter 'none' cannot be found."
    refusal(client.post(UNLOAD, json={"lora_name": "none"}), 404, message, "NotFoundError", "not_found")


def test_a_folder_that_cannot_be_served_is_refused_by_its_key(client: FlaskClient, folder: Path) -> None:
    (folder / "adapter_config.json").unlink()
    message = "adapter_config.json is missing in the adapter's folder"
    refusal(load(client, folder), 400, message, "BadRequestError")
    assert names(client) == ["fake/model", "chat", "poet"]


def test_a_form_of_another_page_is_refused(client: FlaskClient) -> None:
    assert client.post(LOAD, data="lora_name=a", content_type="text/plain").status_code == 400


def test_a_model_without_adapters_loads_none(folder: Path) -> None:
    client = create_app(make_models(FakeBackend()), ServerSettings(adapter_dirs=(str(folder.parent),)))
    reply = load(client.test_client(), folder)
    refusal(reply, 400, "this model is served without adapters", "BadRequestError")


def test_a_card_has_the_lineage(client: FlaskClient, backend: FakeBackend) -> None:
    base, _, card = client.get("/v1/models").get_json()["data"]
    assert (base["root"], base["parent"]) == ("fake/model", None)
    expected = {"id": "poet", "root": "poet", "parent": "fake/model", "max_model_len": 128, "object": "model"}
    assert card.items() >= expected.items()
    assert (card["created"], card["model_type"]) == (1700000001, "llm")
    assert card["metadata"] == {"context": 128, "parent": "fake/model", "lora_rank": 8}
    for prefix in ("/v1", "/v1/openai/v1"):
        assert client.get(f"{prefix}/models/poet").get_json() == card


@pytest.mark.parametrize("path", ["/v1/models/a/b:c", "/v1/models/a%2Fb:c", "/v1/openai/v1/models/a%2Fb%3Ac"])
def test_a_name_with_a_slash_is_found_and_deleted(
    client: FlaskClient, backend: FakeBackend, folder: Path, path: str
) -> None:
    load(client, folder, "a/b:c")
    assert client.get(path).get_json()["id"] == "a/b:c"
    assert client.delete(path).get_json() == {"id": "a/b:c", "object": "model", "deleted": True}
    assert names(client) == ["fake/model", "chat", "poet"]
    refusal(client.delete(path), 404, "The model `a/b:c` does not exist.", "NotFoundError", "not_found")


@pytest.mark.parametrize("name", ["fake/model", "chat", "model"])
def test_the_model_itself_is_not_deleted(client: FlaskClient, name: str) -> None:
    message = f"model is the model itself, which is served as long as the server runs, got '{name}'"
    refusal(client.delete(f"/v1/models/{name}"), 400, message, "BadRequestError")


def test_embeddings_of_an_adapter_are_refused(client: FlaskClient) -> None:
    reply = client.post("/v1/embeddings", json={"model": "poet", "input": "hi"})
    message = "model is an adapter, and embeddings are those of the model itself: name fake/model, got 'poet'"
    refusal(reply, 400, message, "BadRequestError")


def test_an_adapter_is_fetched_from_the_hub(backend: FakeBackend, folder: Path) -> None:
    fetched: list[tuple[str, str]] = []

    def fetch(name: str, revision: str) -> Path:
        fetched.append((name, revision))
        if name == "acme/none":
            raise Refused(Finding("access", name, "no such model, or a private one", False))
        return folder

    settings = ServerSettings(adapter_dirs=(str(folder.parent),))
    client = create_app(make_models(backend), settings, services=Services(fetch_adapter=fetch)).test_client()
    assert load(client, "acme/cook@v1").status_code == 200
    assert load(client, "cook", "second").status_code == 200
    reply = load(client, "acme/none", "third")
    rule = f"{OUTSIDE}, or owner/name on the Hub (no such model, or a private one), got 'acme/none'"
    refusal(reply, 400, f"lora_path {rule}", "BadRequestError")
    for path in ("/etc/passwd", "acme/../x", "http://host/a", "acme/a@../x", "../x"):
        assert load(client, path, "fourth").status_code == 400
    assert fetched == [("acme/cook", "v1"), ("acme/none", "main")]


@pytest.mark.parametrize("path", [COMPLETIONS, CHATS])
def test_sglangs_lora_path_names_an_adapter(client: FlaskClient, backend: FakeBackend, path: str) -> None:
    for fields in (
        {"lora_path": "poet"},
        {"lora_path": ["poet", "poet"]},
        {"model": "chat:poet"},
        {"model": "poet", "lora_path": "poet"},
    ):
        assert client.post(path, json=body_for(path, **fields)).status_code == 200
        assert backend.requests[-1].adapter == "poet"
    for fields in ({"lora_path": None}, {"lora_path": ""}, {"lora_path": [None]}, {"lora_path": []}):
        assert client.post(path, json=body_for(path, **fields)).status_code == 200
        assert backend.requests[-1].adapter is None


@pytest.mark.parametrize("path", [COMPLETIONS, CHATS])
def test_a_lora_path_that_cannot_be_served_is_refused(
    client: FlaskClient, backend: FakeBackend, path: str
) -> None:
    message = "lora_path: Adapter 'none' not found: GET /v1/models lists the loaded adapters"
    refusal(client.post(path, json=body_for(path, lora_path="none")), 400, message, "BadRequestError")
    message = "lora_path must name the same adapter for all prompts"
    refusal(client.post(path, json=body_for(path, lora_path=["poet", None])), 400, message, "BadRequestError")
    message = "lora_path is 'none', and model is another adapter: send one"
    reply = client.post(path, json=body_for(path, model="poet", lora_path="none"))
    refusal(reply, 400, message, "BadRequestError")
    assert backend.requests == []
