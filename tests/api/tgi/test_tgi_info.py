"""TGI's routes about the server and about texts: info, health, tokens; and Vertex AI's route."""

from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from inference.backend_info import ModelInfo
from inference.errors import BadRequest
from inference.tokenized import Tokenized, TokenSpan
from inference.types import Message
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models, say

USER = {"role": "user", "content": "What is it?"}


class Described(FakeBackend):
    """A backend that reports details of its model."""

    details: dict[str, str]

    def info(self) -> ModelInfo:
        return replace(super().info(), details=self.details)


def test_info_reports_the_model_and_the_limits(backend: FakeBackend) -> None:
    settings = ServerSettings(
        max_concurrent_requests=3, max_best_of=4, max_stop_sequences=6, max_client_batch_size=7
    )
    info = create_app(make_models(backend), settings).test_client().get("/info")
    expected = {
        "model_id": "fake/model",
        "model_sha": None,
        "model_pipeline_tag": None,
        "max_concurrent_requests": 3,
        "max_best_of": 4,
        "max_stop_sequences": 6,
        "max_input_tokens": 127,
        "max_total_tokens": 128,
        "validation_workers": 16,
        "max_client_batch_size": 7,
        "router": "text-generation-router",
        "version": "3.3.7",
        "sha": None,
        "docker_label": None,
    }
    assert info.status_code == 200
    assert {name: info.json[name] for name in expected} == expected


def test_info_limits_the_input_to_the_context_less_one_token(backend: FakeBackend) -> None:
    client = create_app(make_models(backend), ServerSettings(max_input_tokens=1000)).test_client()
    assert client.get("/info").json["max_input_tokens"] == 127
    refused = client.post("/generate", json={"inputs": "a", "parameters": {"truncate": 128}})
    message = "`truncate` must be strictly positive and less than 127. Given: 128"
    assert refused.json["error"] == f"Input validation error: {message}"


def test_info_reports_a_limit_that_is_set(backend: FakeBackend) -> None:
    info = (
        create_app(make_models(backend), ServerSettings(max_input_tokens=100)).test_client().get("/info").json
    )
    assert (info["max_input_tokens"], info["max_input_length"]) == (100, 100)


def test_details_of_the_backend_are_passed_on() -> None:
    backend = Described()
    backend.details = {"dtype": "bfloat16", "device": "cuda", "pipeline_tag": "text2text-generation"}
    client = create_app(make_models(backend), ServerSettings()).test_client()
    info = client.get("/info").json
    assert (info["model_dtype"], info["model_device_type"]) == ("bfloat16", "cuda")
    response = client.post("/", json={"inputs": "Hi"})
    assert response.json == [{"generated_text": "Hello world"}]
    assert response.headers["x-compute-type"] == "gpu+optimized"


def test_ping_is_empty_and_health_is_ok(client: FlaskClient) -> None:
    assert (client.get("/ping").status_code, client.get("/ping").data) == (200, b"")
    assert client.get("/health").status_code == 200


def test_a_server_that_is_not_ready_is_unhealthy(client: FlaskClient, backend: FakeBackend) -> None:
    backend.unready_reason = "the model is loading"
    for path in ("/ping", "/health"):
        response = client.get(path)
        assert response.status_code == 503
        assert response.json == {"error": "unhealthy", "error_type": "healthcheck"}


def test_a_get_of_the_root_returns_the_index(client: FlaskClient) -> None:
    assert client.get("/").status_code == 200
    assert client.get("/config").status_code == 404


def test_tokens_are_returned_with_their_offsets(client: FlaskClient) -> None:
    assert client.post("/tokenize", json={"inputs": "one two"}).json == [
        {"id": 0, "text": "one", "start": 0, "stop": 3},
        {"id": 1, "text": " two", "start": 3, "stop": 7},
    ]


def test_a_token_is_returned_with_its_characters() -> None:
    """A token of half a character has the whole character; a special token that the tokenizer adds has
    none.
    """
    half = "\ufffd"
    spelled = (
        TokenSpan(1, "<s>", 0, 0),
        TokenSpan(2, half, 0, 1),
        TokenSpan(3, half, 0, 1),
        TokenSpan(4, " a", 1, 3),
    )
    backend = FakeBackend()
    backend.tokenize = lambda request: Tokenized("é a", spelled)  # type: ignore[method-assign]
    client = create_app(make_models(backend), ServerSettings()).test_client()
    tokens = client.post("/tokenize", json={"inputs": "é a"}).json
    assert [token["text"] for token in tokens] == ["", "é", "é", " a"]


def test_the_tokens_of_a_chat_are_returned_with_its_text(client: FlaskClient) -> None:
    reply = client.post("/chat_tokenize", json={"model": "tgi", "messages": [USER]}).json
    assert reply["templated_text"] == repr((Message("user", "What is it?"),))
    assert "".join(token["text"] for token in reply["tokenize_response"]) == reply["templated_text"]


def test_an_invalid_chat_is_refused_in_tgis_shape(client: FlaskClient) -> None:
    wrong = [{}, {"messages": []}, {"messages": [{"role": "", "content": "hi"}]}]
    for body in wrong:
        response = client.post("/chat_tokenize", json=body)
        assert (response.status_code, response.json["error_type"]) == (422, "validation")


def test_vertex_returns_a_text_for_each_prompt_and_chat() -> None:
    backend = FakeBackend(lambda request: say(str(request.prompt)[:5], "!"))
    client = create_app(make_models(backend), ServerSettings()).test_client()
    instances = [
        {"inputs": "Once upon", "parameters": {"max_new_tokens": 5, "best_of": 2}},
        {"messages": [USER]},
    ]
    assert client.post("/vertex", json={"instances": instances}).json == {"predictions": ["Once !", "(Mess!"]}
    text, chat = backend.requests
    assert (text.max_tokens, text.n, text.sampling.greedy) == (5, 1, False)
    assert chat.prompt == (Message("user", "What is it?"),)
    assert text.group == chat.group != 0, "one HTTP request"


def test_vertex_returns_one_text_for_a_chat_that_requests_several() -> None:
    client = create_app(make_models(backend := FakeBackend()), ServerSettings()).test_client()
    response = client.post("/vertex", json={"instances": [{"messages": [USER], "n": 3, "best_of": 3}]})
    assert response.json == {"predictions": ["Hello world"]}
    assert backend.requests[0].n == 1


@pytest.mark.parametrize("structured_outputs", [{"grammar": "("}, {"choice": []}, {"json_object": True}])
def test_vertex_refuses_an_unusable_format(structured_outputs: dict[str, Any]) -> None:
    fault = BadRequest("response_format", "is not a usable grammar: it is empty")
    client = create_app(make_models(FakeBackend(error=fault)), ServerSettings()).test_client()
    response = client.post(
        "/vertex", json={"instances": [{"messages": [USER], "structured_outputs": structured_outputs}]}
    )
    assert response.json["error"] == "Input validation error: grammar is not valid: it is empty"


def test_vertex_limits_the_number_of_instances() -> None:
    client = create_app(
        make_models(backend := FakeBackend()), ServerSettings(max_client_batch_size=2)
    ).test_client()
    response = client.post("/vertex", json={"instances": [{"inputs": "a"}] * 3})
    assert response.json["error"] == "Input validation error: `instances` must have at most 2. Given: 3"
    assert (response.status_code, backend.requests) == (422, [])


def test_vertex_reports_which_instance_is_wrong(client: FlaskClient) -> None:
    none = client.post("/vertex", json={"instances": []})
    assert none.json["error"] == "Input validation error: `instances` cannot be empty"
    wrong = client.post("/vertex", json={"instances": [{"inputs": "a"}, {"inputs": 5}]})
    assert wrong.status_code == 422
    assert wrong.json["error"].endswith(": `instances[1].inputs` must be `str`, got `int`")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"temperature": "hot"},
            "Failed to deserialize the JSON body into the target type: `instances[0].temperature` must be "
            "`int | float | null`, got `str`",
        ),
        (
            {"temperature": -1},
            "Input validation error: `instances[0].temperature` must be non-negative, got -1.",
        ),
        (
            {"functions": [{"name": "f"}], "tool_choice": "required"},
            "Input validation error: `instances[0]` is not valid: When using `tool_choice`, `tools` must be "
            "set.",
        ),
        (
            {"stream_options": {}},
            "Input validation error: `instances[0]` is not valid: Stream options can only be defined when "
            "`stream=True`.",
        ),
    ],
)
def test_vertex_reports_a_wrong_value_of_a_chat_as_an_input_validation_error(
    client: FlaskClient, fields: dict[str, Any], message: str
) -> None:
    response = client.post("/vertex", json={"instances": [{"messages": [USER], **fields}]})
    assert (response.status_code, response.json) == (422, {"error": message, "error_type": "validation"})


def test_an_error_that_does_not_begin_with_its_field_is_not_prefixed_with_it(client: FlaskClient) -> None:
    response = client.post("/chat_tokenize", json={"messages": [USER], "tool_choice": "required"})
    message = "Input validation error: When using `tool_choice`, `tools` must be set."
    assert response.json == {"error": message, "error_type": "validation"}
