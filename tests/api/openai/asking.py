"""Asking the app for completions and chats, and reading its streams."""

import json
from typing import Any

from flask.testing import FlaskClient

COMPLETIONS, CHATS, RESPONSES = "/v1/completions", "/v1/chat/completions", "/v1/responses"
USER = {"role": "user", "content": "hi"}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}


def asked(path: str, **fields: Any) -> dict[str, Any]:
    """The least body for the path, with further fields."""
    least = {COMPLETIONS: {"prompt": "Once"}, CHATS: {"messages": [USER]}, RESPONSES: {"input": "hi"}}
    return least[path] | fields


def whole(client: FlaskClient, path: str, **fields: Any) -> Any:
    response = client.post(path, json=asked(path, **fields))
    assert (response.status_code, response.mimetype) == (200, "application/json"), response.text
    return response.get_json()


def chunks(client: FlaskClient, path: str, headers: dict[str, str] | None = None, **fields: Any) -> list[Any]:
    """The values of a stream that ends as OpenAI's streams do."""
    response = client.post(path, json=asked(path, **fields, stream=True), headers=headers)
    assert (response.status_code, response.mimetype) == (200, "text/event-stream"), response.text
    *events, done, last = response.text.split("\n\n")
    assert (done, last) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


def events(client: FlaskClient, **fields: Any) -> list[Any]:
    """The values of a response's stream, whose events are named."""
    response = client.post(RESPONSES, json=asked(RESPONSES, **fields, stream=True))
    assert (response.status_code, response.mimetype) == (200, "text/event-stream"), response.text
    *told, last = response.text.split("\n\n")
    assert last == ""
    pairs = [event.split("\ndata: ") for event in told]
    values = [json.loads(data) for _, data in pairs]
    assert [name.removeprefix("event: ") for name, _ in pairs] == [value["type"] for value in values]
    return values


def refusal(response: Any, status: int, message: str, type: str, error_type: str = "validation") -> None:
    """Assert that the response is this error, in both families' shapes at once."""
    body = response.get_json()
    assert (response.status_code, response.mimetype) == (status, "application/json")
    assert (body["error"]["message"], body["error"]["type"], body["error"]["code"]) == (message, type, status)
    assert "param" in body["error"]
    assert body["error_type"] == error_type
