"""Errors of a response name the field of its own body, not that of the chat request made of it."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from inference.errors import BadRequest, TooLong
from tests.api.openai.app_requests import RESPONSES, body_for
from tests.fakes.fake_backend import FakeBackend


def refused(client: FlaskClient, path: str = RESPONSES, **fields: Any) -> tuple[str, str]:
    """The field and the message of the error."""
    response = client.post(path, json=body_for(RESPONSES, **fields))
    assert response.status_code == 400, response.text
    error = response.get_json()["error"]
    return error["param"], error["message"]


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"max_output_tokens": 0}, "max_output_tokens", "max_output_tokens must be at least 1, got 0."),
        (
            {"text": {"format": {"type": "xml"}}},
            "text.format.type",
            "text.format.type must be one of text, json_object, json_schema, got 'xml'",
        ),
        (
            {"text": {"format": {"type": "json_schema", "name": "x"}}},
            "text.format.schema",
            "text.format.schema is required",
        ),
        (
            {"text": {"format": {"type": "json_schema", "name": "x", "schema": False}}},
            "text.format",
            "the schema false allows no answer: send an object",
        ),
        ({"truncation": "x"}, "truncation", "truncation must be one of auto, disabled, got 'x'"),
        ({"background": 0}, "background", "background must be `bool | null`, got `int`"),
        ({"top_p": 5}, "top_p", "top_p must be in (0, 1], got 5."),
        ({"max_tool_calls": 0}, "max_tool_calls", "max_tool_calls must be at least 1, got 0"),
    ],
)
def test_a_field_that_breaks_a_rule_is_named(
    client: FlaskClient, fields: dict[str, Any], field: str, message: str
) -> None:
    assert refused(client, **fields) == (field, message)
    assert refused(client, f"{RESPONSES}/input_tokens", **fields) == (field, message)


@pytest.mark.parametrize("stream", [False, True])
def test_an_input_that_is_too_long_is_named(client: FlaskClient, backend: FakeBackend, stream: bool) -> None:
    backend.error = TooLong("messages", 128, 200)
    param, message = refused(client, stream=stream)
    assert param == "input" and "maximum context length is 128 tokens" in message


def test_a_schema_that_cannot_be_used_is_named(client: FlaskClient, backend: FakeBackend) -> None:
    backend.error = BadRequest("response_format", "is not a usable JSON schema: Invalid type: nope")
    schema = {"format": {"type": "json_schema", "name": "x", "schema": {"type": "nope"}}}
    message = "text.format is not a usable JSON schema: Invalid type: nope"
    assert refused(client, text=schema) == ("text.format", message)
