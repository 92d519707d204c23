"""A checkpoint of Tinker answers by its path in every dialect, and below a prefix of OpenAI's API."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeAdapters, FakeBackend, make_models

NAME = "tinker://7f6f436d-225d-44c4-9f1e-0d068cc5e750:train:0/sampler_weights/step-000100"
MESSAGES = [{"role": "user", "content": "hi"}]
CHAT, COMPLETION = {"model": NAME, "messages": MESSAGES}, {"model": NAME, "prompt": "hi"}
NEODIM = {"prompt": "hi", "generated_tokens_count": 4, "max_total_tokens": 64, "adapter": NAME}
REQUESTS = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": COMPLETION,
    "/v1/responses": {"model": NAME, "input": "hi"},
    "/oai/api/v1/chat/completions": CHAT,
    "/oai/api/v1/completions": COMPLETION,
    "/inference/chat_completion": CHAT,
    "/v1/inference/completion": {"model_id": NAME, "content": "hi"},
    "/generate_stream": {"inputs": "hi", "parameters": {"adapter_id": NAME}},
    "/generate": NEODIM,
}


@pytest.fixture
def backend() -> FakeBackend:
    backend = FakeBackend()
    backend.lora = FakeAdapters(NAME)
    return backend


@pytest.fixture
def client(backend: FakeBackend) -> FlaskClient:
    return create_app(make_models(backend), ServerSettings()).test_client()


@pytest.mark.parametrize("path", REQUESTS)
def test_a_path_of_tinker_names_the_adapter(client: FlaskClient, backend: FakeBackend, path: str) -> None:
    reply = client.post(path, json=REQUESTS[path])
    assert reply.status_code == 200, reply.text
    assert backend.requests[-1].adapter == NAME


@pytest.mark.parametrize("prefix", ["/v1", "/oai/api/v1"])
def test_lists_of_models_have_the_path(client: FlaskClient, prefix: str) -> None:
    listed: list[dict[str, Any]] = client.get(f"{prefix}/models").get_json()["data"]
    assert [card["id"] for card in listed] == ["fake/model", NAME]
    assert client.get(f"{prefix}/models/{NAME}").get_json() == listed[1]
