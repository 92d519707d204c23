"""Helpers that post completions, chats and responses to the app, and read its streams."""

import json
from typing import Any

from flask.testing import FlaskClient

COMPLETIONS, CHATS, RESPONSES = "/v1/completions", "/v1/chat/completions", "/v1/responses"
USER = {"role": "user", "content": "hi"}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}


def body_for(path: str, **fields: Any) -> dict[str, Any]:
    """The smallest body for the path, plus `fields`."""
    least = {COMPLETIONS: {"prompt": "Once"}, CHATS: {"messages": [USER]}, RESPONSES: {"input": "hi"}}
    return least[path] | fields


def get_response(client: FlaskClient, path: str, **fields: Any) -> Any:
    response = client.post(path, json=body_for(path, **fields))
    assert (response.status_code, response.mimetype) == (200, "application/json"), response.text
    return response.get_json()


def chunks(client: FlaskClient, path: str, headers: dict[str, str] | None = None, **fields: Any) -> list[Any]:
    """The values of a stream that ends with [DONE]."""
    response = client.post(path, json=body_for(path, **fields, stream=True), headers=headers)
    assert (response.status_code, response.mimetype) == (200, "text/event-stream"), response.text
    *events, done, last = response.text.split("\n\n")
    assert (done, last) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


def events(client: FlaskClient, **fields: Any) -> list[Any]:
    """The values of a response's stream, whose events have names."""
    response = client.post(RESPONSES, json=body_for(RESPONSES, **fields, stream=True))
    assert (response.status_code, response.mimetype) == (200, "text/event-stream"), response.text
    *frames, last = response.text.split("\n\n")
    assert last == ""
    pairs = [event.split("\ndata: ") for event in frames]
    values = [json.loads(data) for _, data in pairs]
    assert [name.removeprefix("event: ") for name, _ in pairs] == [value["type"] for value in values]
    return values


def refusal(
    response: Any,
    status: int,
    message: str,
    type: str,
    error_type: str = "validation",
    code: str | None = None,
) -> None:
    """Asserts that the response is this error, in the shapes of OpenAI and TGI at once.

    code  the error's code; None: the status
    """
    body = response.get_json()
    assert (response.status_code, response.mimetype) == (status, "application/json")
    assert (body["error"]["message"], body["error"]["type"]) == (message, type)
    assert body["error"]["code"] == (code or status)
    assert "param" in body["error"]
    assert body["error_type"] == error_type
