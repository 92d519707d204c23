"""Messages of a WebSocket, as the app gets them: requests with the state of their connection."""

import json
from typing import Any

import pytest
from flask.testing import FlaskClient

from api.openai.responses.last_response import LastResponse, LastResponses
from api.store import context
from api.store.tables import StoredItem
from api.wsgi_environ import MESSAGE_STATE
from inference.content import content_text
from inference.errors import Unavailable
from tests.api.openai.app_requests import RESPONSES
from tests.fakes.fake_backend import FakeBackend

State = dict[str, Any]


USER = {"role": "user", "content": "hi"}


def send(client: FlaskClient, state: State, **fields: Any) -> list[Any]:
    """The messages that answer a message."""
    body = {"type": "response.create", "input": "hi", **fields}
    response = client.post(RESPONSES, json=body, environ_overrides={MESSAGE_STATE: state})
    if response.mimetype == "application/json":
        return [response.get_json()]
    texts = [block.partition("\ndata: ")[2] for block in response.text.split("\n\n") if block]
    response.close()
    return [json.loads(text) for text in texts]


def roles(backend: FakeBackend) -> list[str]:
    messages: Any = backend.requests[-1].prompt
    return [f"{message.role}: {content_text(message.content)}" for message in messages]


@pytest.mark.parametrize("fixture", ["client", "stored_client"])
def test_the_last_response_is_continued_though_it_is_not_stored(
    fixture: str, request: pytest.FixtureRequest, backend: FakeBackend
) -> None:
    client: FlaskClient = request.getfixturevalue(fixture)
    state: State = {}
    *_, first = send(client, state, store=False)
    assert first["type"] == "response.completed" and first["response"]["store"] is False
    id = first["response"]["id"]
    *_, second = send(client, state, store=False, input="go on", previous_response_id=id)
    assert second["response"]["previous_response_id"] == id
    assert roles(backend) == ["user: hi", "assistant: Hello world", "user: go on"]
    *_, third = send(client, state, previous_response_id=second["response"]["id"])
    assert third["type"] == "response.completed" and len(roles(backend)) == 5


def test_a_stored_response_is_continued_on_any_connection(
    stored_client: FlaskClient, backend: FakeBackend
) -> None:
    *_, first = send(stored_client, {})
    send(stored_client, {}, previous_response_id=first["response"]["id"])
    assert len(roles(backend)) == 3


def test_another_connection_does_not_know_it(client: FlaskClient) -> None:
    *_, first = send(client, {}, store=False)
    (error,) = send(client, {}, previous_response_id=first["response"]["id"])
    assert (error["type"], error["status"]) == ("error", 404)
    assert error["error"]["code"] == "previous_response_not_found" and error["error"]["message"]


def test_an_error_ends_the_chain(client: FlaskClient) -> None:
    state: State = {}
    *_, first = send(client, state, store=False)
    id = first["response"]["id"]
    output = [{"type": "function_call_output", "call_id": "none", "output": "x"}]
    (error,) = send(client, state, store=False, previous_response_id=id, input=output)
    assert error["status"] == 400 and "No tool call found" in error["error"]["message"]
    (error,) = send(client, state, store=False, previous_response_id=id)
    assert error["error"]["code"] == "previous_response_not_found"


def test_an_error_of_the_engine_is_a_message(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = [Unavailable("no memory left")]
    (error,) = send(client, {})
    assert (error["type"], error["status"]) == ("error", 503)
    assert error["error"]["message"] == "no memory left" and isinstance(error["error"]["code"], str)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"type": "response.cancel"}, "response.create"),
        ({"background": True}, "background"),
        ({"input": 5}, ""),
    ],
)
def test_other_messages_are_refused(client: FlaskClient, fields: dict[str, Any], word: str) -> None:
    (error,) = send(client, {}, **fields)
    assert (error["type"], error["status"]) == ("error", 400) and word in error["error"]["message"]


def test_without_generate_the_prompt_alone_is_computed(client: FlaskClient, backend: FakeBackend) -> None:
    state: State = {}
    *events, end = send(client, state, store=False, generate=False, instructions="Be brief.")
    assert [event["type"] for event in events] == ["response.created", "response.in_progress"]
    response = end["response"]
    assert (end["type"], response["output"], response["usage"]["output_tokens"]) == (
        "response.completed",
        [],
        0,
    )
    assert backend.requests[-1].max_tokens == 1
    send(client, state, store=False, input="go on", previous_response_id=response["id"])
    assert roles(backend) == ["user: hi", "user: go on"]


def test_a_plain_request_has_none_of_it(client: FlaskClient) -> None:
    response = client.post(RESPONSES, json={"type": "x", "generate": False, "input": "hi"})
    assert response.get_json()["output"][0]["content"][0]["text"] == "Hello world"
    assert client.get(RESPONSES).status_code == 404, "nothing is stored"
    handshake = client.get(RESPONSES, environ_overrides={MESSAGE_STATE: {}})
    assert handshake.status_code == 101


def test_what_a_connection_remembers_has_a_limit(
    client: FlaskClient, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Items of unknown types are no part of a prompt: no limit of the context ends the chain."""
    monkeypatch.setattr(context, "MAX_CONTEXT_BYTES", 2000)
    state: State = {}
    events = send(client, state, store=False, input=[{"type": "x", "text": "y" * 1500}, USER])
    for _ in range(2):
        id = events[-1]["response"]["id"]
        events = send(client, state, store=False, previous_response_id=id, input=[{"type": "x" * 500}, USER])
        if events[-1]["type"] == "error":
            break
    assert "more than 2000 bytes: begin a new conversation" in events[-1]["error"]["message"]
    assert state == {}


def test_what_all_connections_remember_has_a_limit() -> None:
    responses, last = (
        LastResponses(max_bytes=100),
        [LastResponse(str(i), [StoredItem("", "x" * 30)]) for i in range(5)],
    )
    for each in last[:3]:
        responses.add(each)
    del last[1], each
    responses.add(last[2])
    assert [len(each.items) for each in last] == [1, 1, 1, 1], "a closed connection has left nothing"
    responses.add(last[3])
    assert [len(each.items) for each in last] == [0, 1, 1, 1], "the oldest is forgotten first"
