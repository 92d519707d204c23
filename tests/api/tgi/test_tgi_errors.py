"""Each invalid request of TGI: its status and body, byte for byte where TGI defines the message."""

import json
from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from inference.errors import (
    BadRequest,
    Internal,
    MaxTokensTooLarge,
    NotImplementedHere,
    Overloaded,
    ServerError,
    TooLong,
    Unavailable,
)
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, make_models, say

UNSTREAMED = ("/", "/generate", "/invocations")
PERSON = {"properties": {"name": {"type": "string"}}}

INVALID: list[tuple[dict[str, Any], str]] = [
    ({"best_of": 0}, "`best_of` must be > 0 and <= 2. Given: 0"),
    ({"best_of": 3, "do_sample": True}, "`best_of` must be > 0 and <= 2. Given: 3"),
    ({"best_of": 2}, "you must use sampling when `best_of` is > 1"),
    ({"best_of": 2, "do_sample": True, "seed": 1}, "`seed` must not be set when `best_of` > 1"),
    ({"temperature": 0}, "`temperature` must be strictly positive"),
    ({"temperature": -0.5}, "`temperature` must be strictly positive"),
    ({"repetition_penalty": 0.0}, "`repetition_penalty` must be strictly positive"),
    ({"frequency_penalty": 2.1}, "`frequency_penalty` must be >= -2.0 and <= 2.0"),
    ({"frequency_penalty": -2.1}, "`frequency_penalty` must be >= -2.0 and <= 2.0"),
    ({"top_p": 0.0}, "`top_p` must be > 0.0 and < 1.0"),
    ({"top_p": 1.0}, "`top_p` must be > 0.0 and < 1.0"),
    ({"typical_p": 0}, "`typical_p` must be > 0.0 and < 1.0"),
    ({"typical_p": 1}, "`typical_p` must be > 0.0 and < 1.0"),
    ({"top_k": 0}, "`top_k` must be strictly positive"),
    ({"top_k": -1}, "`top_k` must be strictly positive"),
    ({"max_new_tokens": 0}, "`max_new_tokens` must be strictly positive"),
    ({"stop": list("abcde")}, "`stop` supports up to 4 stop sequences. Given: 5"),
    ({"seed": 2**64}, "`seed` must be <= 18446744073709551615. Given: 18446744073709551616"),
    ({"top_n_tokens": 6}, "`top_n_tokens` must be >= 0 and <= 5. Given: 6"),
    ({"truncate": 0}, "`truncate` must be strictly positive and less than 127. Given: 0"),
    ({"truncate": 128}, "`truncate` must be strictly positive and less than 127. Given: 128"),
    (
        {"adapter_id": "mine"},
        "`adapter_id` must be an adapter or model of GET /v1/models. Given: mine",
    ),
    (
        {"grammar": {"type": "json", "value": "{"}},
        "grammar is not valid: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    ),
    ({"grammar": {"type": "json", "value": "[]"}}, "grammar is not valid: a JSON schema is an object"),
    (
        {"grammar": {"type": "json", "value": '{"properties":{"a":' * 450 + "{}" + "}}" * 450}},
        "grammar is not valid: it is nested deeper than 100 levels",
    ),
    (
        {"grammar": {"type": "json", "value": {"type": "object"}}},
        "grammar is not valid: Grammar must have a 'properties' field",
    ),
    (
        {"grammar": {"type": "json_schema", "value": {"schema": {"type": "object"}}}},
        "grammar is not valid: Grammar must have a 'properties' field",
    ),
]
STREAMED = [
    ({"best_of": 2, "do_sample": True}, "`best_of` != 1 is not supported when streaming tokens"),
    (
        {"decoder_input_details": True},
        "`decoder_input_details` == true is not supported when streaming tokens",
    ),
]
# Errors of the backend, and the responses they become.
REFUSALS: list[tuple[dict[str, Any], ServerError, int, dict[str, str]]] = [
    (
        {"max_new_tokens": 100},
        MaxTokensTooLarge(128, 60, 100),
        422,
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 128. "
            "Given: 60 `inputs` tokens and 100 `max_new_tokens`",
            "error_type": "validation",
        },
    ),
    (
        {"max_new_tokens": 5},
        TooLong("prompt", 128, 128),
        422,
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 128. "
            "Given: 128 `inputs` tokens and 5 `max_new_tokens`",
            "error_type": "validation",
        },
    ),
    (
        {},
        TooLong("prompt", 128, 129),
        422,
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 128. "
            "Given: 129 `inputs` tokens and 0 `max_new_tokens`",
            "error_type": "validation",
        },
    ),
    (
        {},
        TooLong("prompt", 128, 128),
        422,
        {
            "error": "Input validation error: `inputs` must have less than 127 tokens. Given: 128",
            "error_type": "validation",
        },
    ),
    (
        {"max_new_tokens": 5},
        TooLong("prompt", 4, 5, "may have at most 4 tokens"),
        422,
        {
            "error": "Input validation error: `inputs` must have less than 4 tokens. Given: 5",
            "error_type": "validation",
        },
    ),
    (
        {"max_new_tokens": 124},
        TooLong("prompt", 4, 5, "may have at most 4 tokens"),
        422,
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 128. "
            "Given: 5 `inputs` tokens and 124 `max_new_tokens`",
            "error_type": "validation",
        },
    ),
    (
        {},
        TooLong("prompt", 128, 9000, "has more than 8192 characters", "characters"),
        422,
        {
            "error": "Input validation error: `inputs` has more than 8192 characters, got 9000",
            "error_type": "validation",
        },
    ),
    (
        {"grammar": {"type": "regex", "value": "("}},
        BadRequest("response_format", "is not a usable regular expression: unclosed group"),
        422,
        {
            "error": "Input validation error: grammar is not valid: unclosed group",
            "error_type": "validation",
        },
    ),
    (
        {"grammar": {"type": "json", "value": PERSON}},
        BadRequest("response_format", "is not a usable JSON schema: no such type: here"),
        422,
        {
            "error": "Input validation error: cannot compile regex from schema: no such type: here",
            "error_type": "validation",
        },
    ),
    (
        {"temperature": 200.0},
        BadRequest("temperature", "must be between 0 and 100", 200.0),
        422,
        {
            "error": "Input validation error: `temperature` must be between 0 and 100, got 200.0",
            "error_type": "validation",
        },
    ),
    (
        {},
        NotImplementedHere("this tokenizer allows no grammar"),
        422,
        {
            "error": "Input validation error: this tokenizer allows no grammar",
            "error_type": "validation",
        },
    ),
    ({}, Overloaded(3.0), 429, {"error": "Model is overloaded", "error_type": "overloaded"}),
    ({}, Unavailable("stopping"), 503, {"error": "stopping", "error_type": "overloaded"}),
    (
        {},
        Internal("the step failed"),
        424,
        {"error": "Request failed during generation: the step failed", "error_type": "generation"},
    ),
]


def client_with(backend: FakeBackend, **settings: Any) -> FlaskClient:
    return create_app(make_models(backend), ServerSettings(**settings)).test_client()


def body(**parameters: Any) -> dict[str, Any]:
    return {"inputs": "Hello", "parameters": parameters}


def in_band(text: str) -> Any:
    """The single event of a stream."""
    assert text.startswith("data: ") and text.endswith("\n\n") and text.count("\n\n") == 1
    return json.loads(text.removeprefix("data: "))


@pytest.mark.parametrize("path", UNSTREAMED)
@pytest.mark.parametrize(("parameters", "message"), INVALID)
def test_a_wrong_value_is_a_validation_error(
    client: FlaskClient, path: str, parameters: dict[str, Any], message: str
) -> None:
    response = client.post(path, json=body(**parameters))
    expected = {"error": f"Input validation error: {message}", "error_type": "validation"}
    assert (response.status_code, response.mimetype) == (422, "application/json")
    assert response.data == json.dumps(expected, separators=(",", ":")).encode()


@pytest.mark.parametrize(("parameters", "message"), STREAMED + INVALID[4:])
def test_a_stream_sends_the_validation_error_in_band(
    client: FlaskClient, parameters: dict[str, Any], message: str
) -> None:
    for path, more in (("/generate_stream", {}), ("/", {"stream": True})):
        response = client.post(path, json=body(**parameters) | more)
        assert (response.status_code, response.mimetype) == (200, "text/event-stream")
        expected = {"error": f"Input validation error: {message}", "error_type": "validation"}
        assert response.data == b"data: " + json.dumps(expected, separators=(",", ":")).encode() + b"\n\n"


def test_an_empty_prompt_is_refused(client: FlaskClient) -> None:
    response = client.post("/generate", json={"inputs": ""})
    assert (response.status_code, response.json["error"]) == (
        422,
        "Input validation error: `inputs` cannot be empty",
    )


def test_the_first_broken_rule_is_reported(client: FlaskClient) -> None:
    wrong = {
        "best_of": 3,
        "temperature": 0,
        "repetition_penalty": 0,
        "frequency_penalty": 3,
        "top_p": 2,
        "typical_p": 2,
        "top_k": 0,
        "max_new_tokens": 0,
        "stop": list("abcde"),
        "top_n_tokens": 9,
    }
    last = {"truncate": 0}
    for name in list(wrong):
        message = client.post("/generate", json={"inputs": "", "parameters": wrong | last}).json["error"]
        assert message.startswith(f"Input validation error: `{name}`")
        del wrong[name]
    assert "`inputs`" in client.post("/generate", json={"inputs": "", "parameters": last}).json["error"]
    assert "`truncate`" in client.post("/generate", json=body(**last)).json["error"]


def test_limits_come_from_the_settings(backend: FakeBackend) -> None:
    narrow = client_with(
        backend,
        max_best_of=1,
        max_stop_sequences=0,
        max_top_n_tokens=1,
        max_input_tokens=4,
        disable_grammar_support=True,
    )
    wrong = [
        ({"best_of": 2, "do_sample": True}, "`best_of` != 1 is not allowed for this endpoint"),
        ({"stop": ["a"]}, "`stop` supports up to 0 stop sequences. Given: 1"),
        ({"top_n_tokens": 2}, "`top_n_tokens` must be >= 0 and <= 1. Given: 2"),
        ({"truncate": 5}, "`truncate` must be strictly positive and less than 4. Given: 5"),
        ({"grammar": {"type": "regex", "value": "a"}}, "grammar is not supported"),
    ]
    for parameters, message in wrong:
        error = narrow.post("/generate", json=body(**parameters)).json["error"]
        assert error == f"Input validation error: {message}"
    assert narrow.post("/generate", json=body(best_of=1)).status_code == 200


@pytest.mark.parametrize(("parameters", "error", "status", "expected"), REFUSALS)
def test_a_backends_refusal_is_reported_in_tgis_words(
    parameters: dict[str, Any], error: ServerError, status: int, expected: dict[str, str]
) -> None:
    client = client_with(FakeBackend(error=error))
    response = client.post("/generate", json=body(**parameters))
    assert (response.status_code, response.json) == (status, expected)
    streamed = client.post("/generate_stream", json=body(**parameters))
    assert (streamed.status_code, in_band(streamed.text)) == (200, expected)


def test_retry_after_is_sent() -> None:
    client = client_with(FakeBackend(error=Overloaded(3.0)))
    assert client.post("/generate", json=body()).headers["Retry-After"] == "3"


def test_a_failure_midway_is_a_generation_error() -> None:
    client = client_with(FakeBackend([*say("Hello")[:-1], Internal("the step failed")]))
    failed = {"error": "Request failed during generation: the step failed", "error_type": "generation"}
    response = client.post("/generate", json=body())
    assert (response.status_code, response.json) == (424, failed)
    first, second = client.post("/generate_stream", json=body()).text.split("\n\n")[:2]
    assert json.loads(first.removeprefix("data: "))["token"]["text"] == "Hello"
    assert json.loads(second.removeprefix("data: ")) == failed


def test_a_failure_before_the_first_token_is_in_band_as_well() -> None:
    client = client_with(FakeBackend([Internal("the step failed")]))
    response = client.post("/generate_stream", json=body())
    assert (response.status_code, response.headers["x-compute-type"]) == (200, "cpu")
    assert in_band(response.text)["error_type"] == "generation"


def test_an_answer_without_its_end_is_incomplete() -> None:
    client = client_with(FakeBackend(say("Hello")[:-1]))
    response = client.post("/generate", json=body())
    expected = {"error": "Incomplete generation", "error_type": "incomplete_generation"}
    assert (response.status_code, response.json) == (500, expected)
    *_, last = client.post("/generate_stream", json=body()).text.strip().split("\n\n")
    expected = {"error": "Incomplete generation stream", "error_type": "incomplete_generation_stream"}
    assert json.loads(last.removeprefix("data: ")) == expected


@pytest.mark.parametrize("path", ["/", "/generate", "/generate_stream", "/vertex", "/chat_tokenize"])
@pytest.mark.parametrize("data", ["", "{", '{"inputs": NaN}', '{"inputs": "a", "inputs": "b"}', b"\xff"])
def test_a_body_that_is_not_json_is_a_bad_request(client: FlaskClient, path: str, data: str | bytes) -> None:
    response = client.post(path, data=data, content_type="application/json")
    assert (response.status_code, response.json["error_type"]) == (400, "validation")
    assert response.json["error"].startswith("Failed to parse the request body as JSON: ")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "`inputs` is required"),
        ([], "the body must be `object`, got `array`"),
        ({"inputs": 5}, "`inputs` must be `str`, got `int`"),
        (body(temperature="hot"), "`parameters.temperature` must be `float | null`, got `str`"),
        (body(max_new_tokens=-1), "`parameters.max_new_tokens` must be `int` >= 0"),
        (body(seed=-1), "`parameters.seed` must be `int` >= 0"),
        (body(best_of=1.5), "`parameters.best_of` must be `int | null`, got `float`"),
        (body(stop="a"), "`parameters.stop` must be `array | null`, got `str`"),
        (
            body(grammar={"type": "yaml", "value": ""}),
            "`parameters.grammar.type` has the invalid value 'yaml'",
        ),
        (body(grammar={"type": "regex"}), "`parameters.grammar.value` is required"),
    ],
)
def test_a_body_of_the_wrong_shape_is_unprocessable(client: FlaskClient, body: Any, reason: str) -> None:
    for path in ("/", "/generate", "/generate_stream"):
        response = client.post(path, json=body)
        message = f"Failed to deserialize the JSON body into the target type: {reason}"
        assert (response.status_code, response.json) == (422, {"error": message, "error_type": "validation"})


def test_wrong_methods_and_content_types_are_refused_in_tgis_shape(client: FlaskClient) -> None:
    wrong_method = client.get("/generate_stream")
    assert (wrong_method.status_code, wrong_method.json["error_type"]) == (405, "method_not_allowed")
    assert "POST" in wrong_method.headers["Allow"]
    wrong_content = client.post("/generate_stream", data="a,b", content_type="text/csv")
    assert (wrong_content.status_code, wrong_content.json["error_type"]) == (415, "validation")
    for response in (wrong_method, wrong_content):
        assert isinstance(response.json["error"], str)


def test_a_body_too_large_is_refused_in_tgis_shape(backend: FakeBackend) -> None:
    response = client_with(backend, max_body_bytes=10).post("/generate", json=body())
    assert (response.status_code, response.json["error_type"]) == (413, "validation")
    assert isinstance(response.json["error"], str)


def test_an_unknown_path_has_an_error(client: FlaskClient) -> None:
    response = client.post("/nowhere", json=body())
    assert (response.status_code, "error" in response.json) == (404, True)


def test_an_internal_error_is_reported_in_tgis_shape(backend: FakeBackend) -> None:
    client = client_with(backend)
    client.application.view_functions["tgi./vertex"] = lambda: 1 // 0
    response = client.post("/vertex", json={"instances": []})
    assert (response.status_code, response.json["error_type"]) == (424, "generation")
    assert "division" not in response.text


@pytest.mark.parametrize(
    "path",
    ["/", "/generate", "/generate_stream", "/vertex", "/invocations", "/tokenize", "/chat_tokenize"],
)
def test_without_its_key_a_request_is_unauthorized(backend: FakeBackend, path: str) -> None:
    guarded = client_with(backend, api_keys=("key",))
    response = guarded.post(path, json=body())
    refusal = response.json
    assert (response.status_code, refusal["error_type"]) == (401, "authentication")
    assert (
        refusal["error"]
        .pop("message")
        .startswith(
            "Unauthorized: this server requires an API key: send the header Authorization: Bearer KEY"
        )
    )
    assert refusal["error"] == {"type": "AuthenticationError", "param": None, "code": 401}
    assert guarded.get("/info").status_code == 200
    known = guarded.post("/generate", json=body(), headers={"Authorization": "Bearer key"})
    assert known.status_code == 200


def test_a_request_beyond_the_limit_is_overloaded(backend: FakeBackend) -> None:
    narrow = client_with(backend, max_concurrent_requests=1)
    overloaded = {"error": "Model is overloaded", "error_type": "overloaded"}
    running = narrow.post("/generate_stream", json=body())
    refused = narrow.post("/generate", json=body())
    assert (refused.status_code, refused.json) == (429, overloaded)
    assert in_band(narrow.post("/generate_stream", json=body()).text) == overloaded
    assert narrow.get("/health").status_code == 200
    running.close()
    assert narrow.post("/generate", json=body()).status_code == 200
