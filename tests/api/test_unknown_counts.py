"""A backend that knows neither its context nor the number of prompt tokens, as that of a remote server."""

from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from inference.backend_info import ModelInfo
from inference.events import Finished, Started, Token
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models

CHAT = {"messages": [{"role": "user", "content": "hi"}]}
NEODIM = {"prompt": "hi", "generated_tokens_count": 2, "max_total_tokens": 64}


class RemoteBackend(FakeBackend):
    def info(self) -> ModelInfo:
        return replace(super().info(), context=None)


@pytest.fixture
def backend() -> RemoteBackend:
    return RemoteBackend([Started(0, None, 0), Token(0, 7, "yes"), Finished(0, "stop", num_tokens=1)])


@pytest.fixture
def client(backend: RemoteBackend) -> FlaskClient:
    return create_app(make_models(backend), ServerSettings()).test_client()


def test_an_unknown_context_is_null_or_left_out(client: FlaskClient) -> None:
    card = client.get("/v1/models").json["data"][0]
    assert card["max_model_len"] is None and "context" not in card["metadata"]
    info = client.get("/info").json
    assert info["max_total_tokens"] is info["max_input_tokens"] is info["max_input_length"] is None
    assert client.get("/playground/status").json["context"] is None
    assert client.post("/tokenize", json={"prompt": "hi"}).json["max_model_len"] is None


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": "hi"}),
        ("/v1/chat/completions", CHAT | {"stream_options": {"include_usage": True}}),
        ("/v1/responses", {"input": "hi"}),
        ("/inference/chat_completion", CHAT | {"model": "fake/model"}),
        ("/v1/inference/chat-completion", CHAT | {"model": "fake/model"}),
        ("/v1/inference/completion", {"content": "hi", "model": "fake/model"}),
        ("/", {"inputs": "hi", "parameters": {"truncate": 100, "details": True}}),
        ("/generate", NEODIM),
    ],
)
def test_every_dialect_answers(path: str, body: dict[str, Any], stream: bool, client: FlaskClient) -> None:
    if "stream_options" in body and not stream:
        body = CHAT
    response = client.post(path, json=body | {"stream": stream})
    assert response.status_code == 200 and "yes" in response.text
    assert "could not be encoded" not in response.text


def test_counts_that_clients_require_are_zero_and_others_are_left_out(client: FlaskClient) -> None:
    usage = client.post("/v1/completions", json={"prompt": "hi"}).json["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (0, 1, 1)
    body = {"content": "hi", "model": "fake/model"}
    metrics = client.post("/v1/inference/completion", json=body).json["metrics"]
    assert [(each["metric"], each["value"]) for each in metrics] == [("completion_tokens", 1)]
    headers = client.post("/generate", json={"inputs": "hi"}).headers
    assert headers["x-generated-tokens"] == "1" and "x-prompt-tokens" not in headers


def test_a_prompt_is_truncated_to_a_number_of_tokens_but_not_to_an_unknown_context(
    backend: RemoteBackend, client: FlaskClient
) -> None:
    for requested, truncate in ((5, 5), (-1, None)):
        client.post("/v1/completions", json={"prompt": "hi", "truncate_prompt_tokens": requested})
        assert backend.requests[-1].truncate == truncate
    embedding = {"input": "a b c", "truncate_prompt_tokens": -1}
    assert client.post("/v1/embeddings", json=embedding).json["usage"]["prompt_tokens"] == 3
