"""Requests refused before their body matters: content type, key, method. Responses that are not stored."""

import json
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from api import create_app
from api.store.access import NOTHING_STORED
from inference.errors import Overloaded
from settings.groups import ServerSettings
from tests.api.openai.app_requests import CHATS, COMPLETIONS, RESPONSES, body_for, refusal
from tests.fakes.fake_backend import FakeBackend, make_models, say


@pytest.mark.parametrize("path", [CHATS, COMPLETIONS, RESPONSES])
def test_without_a_key_the_refusal_says_how_to_send_one(path: str) -> None:
    app = create_app(make_models(FakeBackend()), ServerSettings(api_keys=("secret",)))
    response = app.test_client().post(path, json=body_for(path))
    refused = response.get_json()
    assert (response.status_code, refused["error_type"]) == (401, "authentication")
    message = refused["error"].pop("message")
    assert message.startswith("Unauthorized: this server requires an API key: send the header Authorization")
    assert refused["error"] == {"type": "AuthenticationError", "param": None, "code": 401}


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "application/x-www-form-urlencoded"])
def test_a_body_of_another_content_type_is_refused(client: FlaskClient, kind: str) -> None:
    response = client.post(COMPLETIONS, data=b'{"prompt": "a"}', content_type=kind)
    refusal(response, 400, "Unsupported Media Type: Only 'application/json' is allowed", "Bad Request")


@pytest.mark.parametrize("kind", [None, "application/json; charset=utf-8", "application/x+json"])
def test_a_body_without_a_content_type_is_json(client: FlaskClient, kind: str | None) -> None:
    assert client.post(COMPLETIONS, data=b'{"prompt": "a"}', content_type=kind).status_code == 200


@pytest.mark.parametrize("data", [b"", b"{", b"[1", b'{"prompt": NaN}', b"\xff", b'{"n": 1, "n": 2}', b"[]"])
def test_broken_json_is_a_bad_request(client: FlaskClient, data: bytes) -> None:
    response = client.post(COMPLETIONS, data=data, content_type="application/json")
    error = response.get_json()["error"]
    refusal(response, 400, error["message"], "Bad Request")
    assert error["param"] == ("n" if data.startswith(b'{"n"') else None)


def test_a_wrong_method_is_refused_in_this_dialect(client: FlaskClient) -> None:
    response = client.get(COMPLETIONS)
    assert response.status_code == 405
    assert response.get_json()["error_type"] == "validation"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses/resp_1"),
        ("DELETE", "/v1/responses/resp_1"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("GET", "/v1/openai/v1/responses/resp_1/input_items"),
    ],
)
def test_a_server_without_a_store_has_no_responses(client: FlaskClient, method: str, path: str) -> None:
    response = client.open(path, method=method)
    refusal(response, 404, NOTHING_STORED, "NotFoundError", "not_found")


@pytest.mark.parametrize(
    "fields",
    [
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"input": [{"type": "item_reference", "id": "msg_1"}]},
    ],
)
def test_a_server_without_a_store_has_no_earlier_turns(client: FlaskClient, fields: dict[str, Any]) -> None:
    response = client.post(RESPONSES, json=body_for(RESPONSES, **fields))
    code = "previous_response_not_found" if "previous_response_id" in fields else None
    refusal(response, 404, NOTHING_STORED, "NotFoundError", "not_found", code)


def test_grammars_can_be_turned_off(backend: FakeBackend) -> None:
    client = create_app(make_models(backend), ServerSettings(disable_grammar_support=True)).test_client()
    response = client.post(CHATS, json=body_for(CHATS, response_format={"type": "json_object"}))
    assert response.status_code == 400
    assert client.post(CHATS, json=body_for(CHATS, response_format={"type": "text"})).status_code == 200


def test_a_request_refused_halfway_leaves_nothing_running(app: Flask, backend: FakeBackend) -> None:
    def refuse_second(request: Any) -> Any:
        if request.prompt == "b":
            raise Overloaded(1)
        return say("a")

    backend.script = refuse_second
    assert app.test_client().post(COMPLETIONS, json={"prompt": ["a", "b"]}).status_code == 429
    assert (len(backend.streams), backend.open_streams) == (1, [])


@pytest.mark.parametrize("agent", ["LlamaStackClient/Python 0.3.0", "AsyncLlamaStackClient/Python 0.5.0a1"])
@pytest.mark.parametrize("path", [COMPLETIONS, CHATS])
def test_a_llama_stack_client_gets_nothing_after_the_last_event(
    client: FlaskClient, path: str, agent: str
) -> None:
    """It would parse [DONE] as JSON."""
    response = client.post(path, json=body_for(path, stream=True), headers={"User-Agent": agent})
    *events, last = response.text.split("\n\n")
    assert last == ""
    values = [json.loads(event.removeprefix("data: ")) for event in events]
    assert values[-1]["choices"][0]["finish_reason"] == "stop"
