"""Two models behind one app: lists, answers by name, the default, unknown names, health and load."""

from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from api import create_app
from inference.models import ModelEntry, Models
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, say

CHAT = {"messages": [{"role": "user", "content": "hi"}]}
NAMES = ["acme/small", "fast", "acme/large", "clever"]
SMALL, LARGE = ["acme/small", "fast", "small"], ["acme/large", "clever", "large"]


@pytest.fixture
def small() -> FakeBackend:
    return FakeBackend(say("I am small"), model_id="acme/small")


@pytest.fixture
def large() -> FakeBackend:
    return FakeBackend(say("I am large"), model_id="acme/large")


@pytest.fixture
def client(small: FakeBackend, large: FakeBackend) -> FlaskClient:
    models = Models(ModelEntry(small, ("acme/small", "fast")), ModelEntry(large, ("acme/large", "clever")))
    return create_app(models, ServerSettings()).test_client()


def post(client: FlaskClient, path: str, body: dict[str, Any]) -> TestResponse:
    return client.post(path, json=body)


@pytest.mark.parametrize("path", ["/v1/models", "/v1/openai/v1/models", "/passthrough/v1/models"])
def test_lists_have_every_name_of_every_model(path: str, client: FlaskClient) -> None:
    cards = client.get(path).json["data"]
    assert [card["id"] for card in cards] == [card["identifier"] for card in cards] == NAMES
    assert [card["root"] for card in cards] == ["acme/small"] * 2 + ["acme/large"] * 2


@pytest.mark.parametrize("path", ["/models/list", "/alpha/models/list"])
def test_lists_of_old_clients_have_every_name_too(path: str, client: FlaskClient) -> None:
    assert [card["identifier"] for card in client.get(path).json] == NAMES


@pytest.mark.parametrize("path", ["/v1/models/{}", "/v1/openai/v1/models/{}", "/models/get?identifier={}"])
def test_a_card_is_that_of_the_named_model(path: str, client: FlaskClient) -> None:
    for root, names in (("acme/small", SMALL), ("acme/large", LARGE)):
        for name in names:
            card = client.get(path.format(name)).json
            assert (card["id"], card["root"]) == (name, root)
    assert client.get(path.format("other")).status_code == 404


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": "hi"}),
        ("/v1/chat/completions", CHAT),
        ("/v1/responses", {"input": "hi"}),
        ("/v1/openai/v1/chat/completions", CHAT),
        ("/invocations", CHAT),
        ("/inference/completion", {"content": "hi"}),
        ("/inference/chat_completion", CHAT),
        ("/v1/inference/chat-completion", CHAT),
        ("/v1/inference/batch-completion", {"content_batch": ["a", "b"]}),
    ],
)
def test_the_named_model_answers(
    path: str, body: dict[str, Any], client: FlaskClient, small: FakeBackend, large: FakeBackend
) -> None:
    for text, names in (("I am small", SMALL), ("I am large", LARGE)):
        for name in names:
            response = post(client, path, body | {"model": name})
            assert response.status_code == 200 and text in response.text
            assert response.json.get("model", name) == name
    assert len(small.requests) == len(large.requests)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": "hi"}),
        ("/v1/chat/completions", CHAT | {"model": "tgi"}),
        ("/v1/chat/completions", CHAT | {"model": ""}),
        ("/v1/chat/completions", CHAT | {"model": "http://127.0.0.1:8000"}),
        ("/v1/completions", {"prompt": "hi", "model": "https://host.example/v1"}),
        ("/v1/responses", {"input": "hi", "model": "http://127.0.0.1:8000/v1"}),
        ("/inference/chat_completion", CHAT | {"model": "http://127.0.0.1:8000"}),
        ("/v1/inference/completion", {"content": "hi", "model_id": "http://127.0.0.1:8000"}),
        ("/invocations", CHAT | {"model": "http://127.0.0.1:8000"}),
        ("/generate", {"inputs": "hi"}),
        ("/generate_stream", {"inputs": "hi"}),
        ("/", {"inputs": "hi", "model": "acme/large"}),
        ("/vertex", {"instances": [CHAT | {"model": "acme/large"}]}),
        ("/generate", {"prompt": "hi", "generated_tokens_count": 2, "max_total_tokens": 64}),
    ],
)
def test_the_default_model_answers_requests_without_a_name_and_dialects_that_ignore_it(
    path: str, body: dict[str, Any], client: FlaskClient, large: FakeBackend
) -> None:
    response = post(client, path, body)
    assert response.status_code == 200 and "I am small" in response.text and not large.requests


def test_embeddings_and_tokens_are_those_of_the_named_model(
    client: FlaskClient, small: FakeBackend, large: FakeBackend
) -> None:
    response = post(client, "/v1/embeddings", {"input": "hi", "model": "large"})
    assert (response.json["model"], len(large.streams), len(small.streams)) == ("large", 1, 0)
    post(client, "/inference/embeddings", {"contents": ["hi"], "model_id": "clever"})
    assert (len(large.streams), len(small.streams)) == (2, 0)
    for path, body in (("/tokenize", {"prompt": "hi"}), ("/detokenize", {"tokens": [1]})):
        assert post(client, path, body | {"model": "clever"}).status_code == 200
        assert post(client, path, body | {"model": "other"}).status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/v1/completions", {"prompt": "hi"}, 404, "The model `other` does not exist."),
        ("/v1/chat/completions", CHAT, 404, "The model `other` does not exist."),
        ("/v1/responses", {"input": "hi"}, 404, "The model `other` does not exist."),
        ("/v1/embeddings", {"input": "hi"}, 404, "The model `other` does not exist."),
        (
            "/inference/completion",
            {"content": "hi"},
            400,
            "Invalid value: Model 'other' not found, this server has 'acme/small', 'acme/large'",
        ),
    ],
)
def test_an_unknown_name_is_the_dialects_error(
    path: str, body: dict[str, Any], status: int, message: str, client: FlaskClient
) -> None:
    response = post(client, path, body | {"model": "other"})
    assert (response.status_code, response.json["error"]["message"]) == (status, message)


def test_the_server_is_unhealthy_if_one_model_cannot_answer(client: FlaskClient, large: FakeBackend) -> None:
    assert [client.get(path).status_code for path in ("/health", "/health/ready", "/ping")] == [200] * 3
    large.unready_reason = "the engine has failed"
    assert [client.get(path).status_code for path in ("/health", "/health/ready", "/ping")] == [503] * 3
    ready = client.get("/health/ready")
    assert ready.json["error"]["message"] == "acme/large: the engine has failed"


def test_the_load_is_that_of_all_models(client: FlaskClient) -> None:
    streams = [
        post(client, "/v1/completions", {"prompt": "hi", "stream": True, "model": name})
        for name in ("small", "large", "large")
    ]
    assert client.get("/load").json == {"server_load": 3}
    for stream in streams:
        stream.close()


def test_descriptions_of_the_server_show_the_default_model(client: FlaskClient) -> None:
    assert client.get("/").json["model"] == client.get("/info").json["model_id"] == "acme/small"
    assert client.get("/playground/status").json["model"] == "acme/small"
