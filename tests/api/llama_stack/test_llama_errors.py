"""Bad requests, and the statuses and bodies from which clients of every version raise the right error."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from inference.errors import BadRequest, Overloaded, ServerError, TooLong, Unavailable
from tests.fakes.fake_backend import FakeBackend, say

USER = {"role": "user", "content": "hi"}
OK = {"model": "fake/model", "messages": [USER]}
CHATS = ["/inference/chat_completion", "/alpha/inference/chat-completion", "/v1/inference/chat-completion"]
IMAGES = [
    {"image": {"uri": "https://example.com/a.png"}},
    [{"image": {"uri": "data:image/png;base64,aa"}}, "What is it?"],
    {"type": "image", "image": {"url": {"uri": "https://example.com/a.png"}}},
    {"type": "image", "url": {"uri": "https://example.com/a.png"}},
    [{"type": "image", "data": "aa"}],
]


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in OK.items() if name != key}


def with_message(**message: Any) -> dict[str, Any]:
    return OK | {"messages": [USER, message]}


@pytest.mark.parametrize(
    ("body", "loc", "kind"),
    [
        (without("messages"), ["messages"], "missing"),
        (without("model"), ["model_id"], "missing"),
        (OK | {"messages": []}, ["messages"], "value_error"),
        (OK | {"messages": "hi"}, ["messages"], "value_error"),
        (with_message(content="hi"), ["messages", 1, "role"], "missing"),
        (with_message(role="bob", content="hi"), ["messages", 1, "role"], "value_error"),
        (with_message(role="user"), ["messages", 1, "content"], "value_error"),
        (with_message(role="user", content=5), ["messages", 1, "content"], "value_error"),
        (with_message(role="user", content={"type": "text"}), ["messages", 1, "content"], "value_error"),
        (
            with_message(role="assistant", content="", tool_calls=[{"tool_name": "f", "arguments": "["}]),
            ["messages", 1, "tool_calls", 0, "arguments"],
            "value_error",
        ),
        (
            with_message(role="assistant", tool_calls=[{"tool_name": "f", "arguments": '{"a":' * 100_000}]),
            ["messages", 1, "tool_calls", 0, "arguments"],
            "value_error",
        ),
        (OK | {"sampling_params": {"strategy": "beam"}}, ["sampling_params", "strategy"], "value_error"),
        (OK | {"sampling_params": {"max_tokens": "9"}}, ["sampling_params", "max_tokens"], "value_error"),
        (OK | {"tools": [{"description": "?"}]}, ["tools", 0, "tool_name"], "missing"),
        (OK | {"response_format": {"type": "yaml"}}, ["response_format"], "value_error"),
        (OK | {"logprobs": 3}, ["logprobs"], "value_error"),
    ],
)
@pytest.mark.parametrize(("path", "stream"), [(CHATS[0], True), (CHATS[1], False), (CHATS[2], True)])
def test_a_bad_body_is_refused_with_the_location_of_the_error(
    client: FlaskClient, path: str, body: dict[str, Any], loc: list[str | int], kind: str, stream: bool
) -> None:
    response = client.post(path, json=body | {"stream": stream}, headers={"Accept": "text/event-stream"})
    reply = response.get_json()
    (violation,) = reply["detail"]["errors"]
    assert (response.status_code, response.mimetype) == (400, "application/json")
    assert violation["loc"][: len(loc) + 1] == ["body", *loc]
    assert violation["type"] == kind
    assert reply["error"]["detail"] == reply["detail"]
    assert reply["error"]["message"]


def test_a_missing_field_is_reported_as_captured(client: FlaskClient) -> None:
    reply = client.post("/v1/inference/chat-completion", json=without("messages")).get_json()
    assert reply["error"]["detail"] == {
        "errors": [{"loc": ["body", "messages"], "msg": "Field required", "type": "missing"}]
    }


@pytest.mark.parametrize("path", CHATS)
@pytest.mark.parametrize("data", [b"", b"{", b"[1", b'{"messages": NaN}', b"\xff"])
def test_broken_json_is_a_bad_request(client: FlaskClient, path: str, data: bytes) -> None:
    response = client.post(path, data=data, content_type="application/json")
    assert response.status_code == 400
    assert response.get_json()["detail"]["errors"][0]["loc"] == ["body"]


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_is_refused_by_a_model_that_reads_text(client: FlaskClient, image: Any) -> None:
    body = OK | {"messages": [{"role": "user", "content": image}]}
    response = client.post("/v1/inference/chat-completion", json=body)
    assert response.status_code == 400
    assert "messages[0].content" in response.get_json()["error"]["message"]
    assert "reads text only" in response.get_json()["error"]["message"]


@pytest.mark.parametrize("path", CHATS)
def test_an_unknown_model_is_refused_with_its_name(client: FlaskClient, path: str) -> None:
    response = client.post(path, json=OK | {"model": "nope"})
    assert response.status_code == 400
    assert response.get_json()["detail"].startswith("Invalid value: Model 'nope' not found")


@pytest.mark.parametrize(
    ("error", "status"),
    [(Overloaded(2.0), 429), (Unavailable("loading"), 503), (TooLong("prompt", 128, 200), 400)],
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_before_the_first_byte_has_its_status(
    client: FlaskClient, backend: FakeBackend, error: ServerError, status: int, stream: bool
) -> None:
    for refused in ({"error": error}, {"error": None, "script": [error]}):
        backend.__dict__.update(refused)
        response = client.post(CHATS[0], json=OK | {"stream": stream})
        assert (response.status_code, response.mimetype) == (status, "application/json")
        assert response.get_json()["error"]["message"] == error.message
        assert response.headers.get("Retry-After") == ("2" if status == 429 else None)


def test_a_sampling_parameter_refused_by_the_backend_is_located_in_the_body(
    client: FlaskClient, backend: FakeBackend
) -> None:
    backend.error = BadRequest("top_p", "must be in (0, 1]", 2)
    reply = client.post(CHATS[0], json=OK).get_json()
    assert reply["detail"]["errors"][0]["loc"] == ["body", "sampling_params", "top_p"]


def test_an_error_in_a_stream_is_its_last_event(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = [*say("a")[:-1], Unavailable("stopping")]
    response = client.post(CHATS[2], json=OK | {"stream": True})
    assert response.status_code == 200
    assert response.text.endswith('data: {"error":{"message":"503: stopping"}}\n\n')


def test_a_batch_with_one_bad_item_starts_nothing(client: FlaskClient, backend: FakeBackend) -> None:
    body = {"model": "fake/model", "messages_batch": [[USER], []]}
    response = client.post("/v1/inference/batch-chat-completion", json=body)
    assert response.get_json()["detail"]["errors"][0]["loc"] == ["body", "messages_batch", 1]
    assert backend.requests == []


def test_a_batch_refused_halfway_leaves_nothing_running(client: FlaskClient, backend: FakeBackend) -> None:
    def refuse_second(request: Any) -> Any:
        if request.prompt == "b":
            raise Overloaded(1)
        return say("a")

    backend.script = refuse_second
    body = {"model": "fake/model", "content_batch": ["a", "b"]}
    assert client.post("/v1/inference/batch-completion", json=body).status_code == 429
    assert (len(backend.streams), backend.open_streams) == (1, [])


@pytest.mark.parametrize("field", ["content_batch", "messages_batch"])
def test_an_empty_batch_is_refused(client: FlaskClient, field: str) -> None:
    path = "batch-completion" if field == "content_batch" else "batch-chat-completion"
    assert client.post(f"/v1/inference/{path}", json={"model": "model", field: []}).status_code == 400


@pytest.mark.parametrize("path", ["/v1/shields", "/alpha/memory/query", "/inference/x", "/v1/inference"])
def test_an_unknown_path_gives_a_404_in_json(client: FlaskClient, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 404
    assert response.get_json()["detail"] == "Not Found"


def test_a_wrong_method_is_refused_in_json(client: FlaskClient) -> None:
    response = client.get("/v1/inference/completion")
    assert response.status_code == 405
    assert response.get_json()["detail"] == "Method Not Allowed"


@pytest.mark.parametrize("path", ["/v1/models/nope", "/models/nope"])
def test_an_unknown_model_has_the_fields_that_openais_clients_read(client: FlaskClient, path: str) -> None:
    error = client.get(path).get_json()["error"]
    assert (error["type"], error["param"], error["code"]) == ("NotFoundError", None, 404)


def test_an_invalid_field_is_named_for_openais_clients_too(client: FlaskClient) -> None:
    error = client.post(CHATS[0], json=without("messages")).get_json()["error"]
    assert (error["type"], error["param"], error["code"]) == ("BadRequestError", "messages", 400)


def test_a_field_whose_name_is_a_digit_of_another_script_is_named(client: FlaskClient) -> None:
    reply = client.post(CHATS[0], data='{"\u00b2": 1, "\u00b2": 2}')
    assert reply.status_code == 400 and reply.json["error"]["detail"]["errors"][0]["loc"] == [
        "body",
        "\u00b2",
    ]


def test_a_refusal_does_not_repeat_a_long_value(client: FlaskClient) -> None:
    reply = client.post(CHATS[0], json=OK | {"response_format": {"type": "a" * 70_000}})
    assert reply.status_code == 400 and len(reply.data) < 3000
