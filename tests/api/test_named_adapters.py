"""A name in a dialect's field for adapters reaches every model of the server, and the adapters of each."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from inference.models import ModelEntry, Models
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeAdapters, FakeBackend

BASE, TUNED, OTHER = "base", "ft:base:local::1", "other"
NEODIM = {"prompt": "hi", "generated_tokens_count": 4, "max_total_tokens": 64}


@pytest.fixture
def backends() -> dict[str, FakeBackend]:
    """A model, one that all weights of it were trained for, and another model with an adapter."""
    backends = {name: FakeBackend(model_id=name) for name in (BASE, TUNED, OTHER)}
    backends[OTHER].lora = FakeAdapters("poet")
    return backends


@pytest.fixture
def client(backends: dict[str, FakeBackend]) -> FlaskClient:
    parents = {TUNED: BASE}
    entries = (ModelEntry(each, (name,), parent=parents.get(name, "")) for name, each in backends.items())
    return create_app(Models(*entries), ServerSettings()).test_client()


def bodies(name: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """The path and body of a request that names an adapter, by dialect."""
    tgi = {"inputs": "hi", "parameters": {"adapter_id": name}}
    return {
        "tgi": ("/generate", tgi),
        "tgi_streamed": ("/generate_stream", tgi),
        "tgi_compat": ("/", tgi),
        "vertex": ("/vertex", {"instances": [tgi]}),
        "neodim": ("/generate", NEODIM | {"adapter": name}),
    }


@pytest.mark.parametrize(
    ("name", "model", "adapter"), [(TUNED, TUNED, None), ("poet", OTHER, "poet"), (OTHER, OTHER, None)]
)
@pytest.mark.parametrize("dialect", bodies(""))
def test_the_name_chooses_the_model(
    client: FlaskClient,
    backends: dict[str, FakeBackend],
    dialect: str,
    name: str,
    model: str,
    adapter: str | None,
) -> None:
    path, body = bodies(name)[dialect]
    reply = client.post(path, json=body)
    assert reply.status_code == 200, reply.text
    requests = {each.model_id: [request.adapter for request in each.requests] for each in backends.values()}
    assert requests == {each: [adapter] if each == model else [] for each in backends}


@pytest.mark.parametrize(
    ("fields", "status"),
    [({}, 200), ({"model": BASE}, 200), ({"lora_path": "poet"}, 400), ({"lora_path": OTHER}, 400)],
)
def test_sglangs_field_names_a_tuned_model_but_none_of_another_model(
    client: FlaskClient, backends: dict[str, FakeBackend], fields: dict[str, str], status: int
) -> None:
    reply = client.post("/v1/completions", json={"prompt": "hi", "lora_path": TUNED, **fields})
    assert reply.status_code == status, reply.text
    assert len(backends[TUNED].requests) == (status == 200)
