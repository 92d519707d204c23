"""What `transformers chat` asks before its first message."""

import json
from typing import Any

from flask.testing import FlaskClient

LOAD = "/load_model"


def event_of(client: FlaskClient, name: str) -> Any:
    response = client.post(LOAD, json={"model": name})
    assert (response.status_code, response.mimetype) == (200, "text/event-stream")
    (event,) = response.text.removesuffix("\n\n").split("\n\n")
    return json.loads(event.removeprefix("data: "))


def test_a_served_model_is_ready(client: FlaskClient) -> None:
    assert event_of(client, "fake/model") == {"status": "ready", "model": "fake/model", "cached": True}


def test_another_model_is_an_error(client: FlaskClient) -> None:
    message = "Model 'nope' not found: this server has 'fake/model'"
    assert event_of(client, "nope") == {"status": "error", "model": "nope", "message": message}


def test_a_body_without_a_model_is_refused(client: FlaskClient) -> None:
    response = client.post(LOAD, json={})
    assert (response.status_code, response.get_json()["error"]["param"]) == (400, "model")
