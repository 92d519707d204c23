"""What TGI tells of the server and of texts: info, health, tokens; and Vertex AI's way to ask."""

from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from api.settings import AppSettings
from inference.errors import BadRequest
from inference.types import Message, ModelInfo, Piece, Tokenized
from tests.fake_backend import FakeBackend, say

USER = {"role": "user", "content": "What is it?"}


class Described(FakeBackend):
    """A backend whose model says more of itself."""

    details: dict[str, str]

    def info(self) -> ModelInfo:
        return replace(super().info(), details=self.details)


def test_info_tells_the_model_and_the_limits(backend: FakeBackend) -> None:
    settings = AppSettings(max_concurrent=3, max_best_of=4, max_stop_sequences=6, max_client_batch=7)
    info = create_app(backend, settings).test_client().get("/info")
    expected = {
        "model_id": "fake/model",
        "model_sha": None,
        "model_pipeline_tag": None,
        "max_concurrent_requests": 3,
        "max_best_of": 4,
        "max_stop_sequences": 6,
        "max_input_tokens": 127,
        "max_total_tokens": 128,
        "validation_workers": 2,
        "max_client_batch_size": 7,
        "router": "text-generation-router",
        "version": "3.3.7",
        "sha": None,
        "docker_label": None,
    }
    assert info.status_code == 200
    assert {name: info.json[name] for name in expected} == expected


def test_info_tells_a_limit_that_is_set(backend: FakeBackend) -> None:
    info = create_app(backend, AppSettings(max_input_tokens=100)).test_client().get("/info").json
    assert (info["max_input_tokens"], info["max_input_length"]) == (100, 100)


def test_what_the_backend_says_of_itself_is_passed_on() -> None:
    backend = Described()
    backend.details = {"dtype": "bfloat16", "device": "cuda", "pipeline_tag": "text2text-generation"}
    client = create_app(backend, AppSettings()).test_client()
    info = client.get("/info").json
    assert (info["model_dtype"], info["model_device_type"]) == ("bfloat16", "cuda")
    whole = client.post("/", json={"inputs": "Hi"})
    assert whole.json == [{"generated_text": "Hello world"}]
    assert whole.headers["x-compute-type"] == "gpu+optimized"


def test_ping_is_empty_and_health_is_what_all_clients_take(client: FlaskClient) -> None:
    assert (client.get("/ping").status_code, client.get("/ping").data) == (200, b"")
    assert client.get("/health").status_code == 200


def test_a_server_that_is_not_ready_is_unhealthy(client: FlaskClient, backend: FakeBackend) -> None:
    backend.unready = "the model is loading"
    for path in ("/ping", "/health"):
        response = client.get(path)
        assert response.status_code == 503
        assert response.json == {"error": "unhealthy", "error_type": "healthcheck"}


def test_the_root_is_the_index_to_who_gets_it(client: FlaskClient) -> None:
    assert client.get("/").status_code == 200
    assert client.get("/config").status_code == 404


# Tokens --------------------------------------------------------------------------------------------------


def test_a_texts_tokens_are_told_with_their_places(client: FlaskClient) -> None:
    assert client.post("/tokenize", json={"inputs": "one two"}).json == [
        {"id": 0, "text": "one", "start": 0, "stop": 3},
        {"id": 1, "text": " two", "start": 3, "stop": 7},
    ]


def test_a_token_is_told_with_the_characters_it_stands_for() -> None:
    """Those of half a character with the whole, those the tokenizer adds with none."""
    half = "\ufffd"
    spelled = (Piece(1, "<s>", 0, 0), Piece(2, half, 0, 1), Piece(3, half, 0, 1), Piece(4, " a", 1, 3))
    backend = FakeBackend()
    backend.tokenize = lambda request: Tokenized("é a", spelled)  # type: ignore[method-assign]
    client = create_app(backend, AppSettings()).test_client()
    told = client.post("/tokenize", json={"inputs": "é a"}).json
    assert [token["text"] for token in told] == ["", "é", "é", " a"]


def test_a_conversations_tokens_are_told_with_its_text(client: FlaskClient) -> None:
    told = client.post("/chat_tokenize", json={"model": "tgi", "messages": [USER]}).json
    assert told["templated_text"] == repr((Message("user", "What is it?"),))
    assert "".join(token["text"] for token in told["tokenize_response"]) == told["templated_text"]


def test_a_conversation_that_is_none_is_refused_in_tgis_shape(client: FlaskClient) -> None:
    wrong = [{}, {"messages": []}, {"messages": [{"role": "bob", "content": "hi"}]}]
    for body in wrong:
        response = client.post("/chat_tokenize", json=body)
        assert (response.status_code, response.json["error_type"]) == (422, "validation")


# Vertex AI -----------------------------------------------------------------------------------------------


def test_vertex_gets_a_text_for_each_prompt_and_conversation() -> None:
    backend = FakeBackend(lambda request: say(str(request.prompt)[:5], "!"))
    client = create_app(backend, AppSettings()).test_client()
    instances = [
        {"inputs": "Once upon", "parameters": {"max_new_tokens": 5, "best_of": 2}},
        {"messages": [USER]},
    ]
    assert client.post("/vertex", json={"instances": instances}).json == {"predictions": ["Once !", "(Mess!"]}
    text, chat = backend.requests
    assert (text.max_tokens, text.n, text.sampling.greedy) == (5, 1, False)
    assert chat.prompt == (Message("user", "What is it?"),)


def test_vertex_tells_one_text_of_a_conversation_that_asks_for_more() -> None:
    client = create_app(backend := FakeBackend(), AppSettings()).test_client()
    told = client.post("/vertex", json={"instances": [{"messages": [USER], "n": 3, "best_of": 3}]})
    assert told.json == {"predictions": ["Hello world"]}
    assert backend.requests[0].n == 1


@pytest.mark.parametrize("form", [{"grammar": "("}, {"choice": []}, {"json_object": True}])
def test_vertex_is_told_of_a_form_that_cannot_be_used(form: dict[str, Any]) -> None:
    fault = BadRequest("response_format", "is not a usable grammar: it is empty")
    client = create_app(FakeBackend(fails=fault), AppSettings()).test_client()
    told = client.post("/vertex", json={"instances": [{"messages": [USER], "structured_outputs": form}]})
    assert told.json["error"] == "Input validation error: grammar is not valid: it is empty"


def test_vertex_may_ask_for_so_many_at_once() -> None:
    client = create_app(backend := FakeBackend(), AppSettings(max_client_batch=2)).test_client()
    told = client.post("/vertex", json={"instances": [{"inputs": "a"}] * 3})
    assert told.json["error"] == "Input validation error: `instances` must have at most 2. Given: 3"
    assert (told.status_code, backend.requests) == (422, [])


def test_vertex_is_told_which_instance_is_wrong(client: FlaskClient) -> None:
    none = client.post("/vertex", json={"instances": []})
    assert none.json["error"] == "Input validation error: `instances` cannot be empty"
    wrong = client.post("/vertex", json={"instances": [{"inputs": "a"}, {"inputs": 5}]})
    assert wrong.status_code == 422
    assert wrong.json["error"].endswith(": `instances[1].inputs` must be `str`, got `int`")
    chat = client.post("/vertex", json={"instances": [{"messages": [USER], "temperature": -1}]})
    assert chat.json["error"].endswith(": `instances[0].temperature` must be non-negative, got -1.")
