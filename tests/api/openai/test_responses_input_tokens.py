"""The route that counts the input tokens of a response without generating one."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.fakes.fake_backend import FakeBackend

COUNT = "/v1/responses/input_tokens"


def count(client: FlaskClient, **fields: Any) -> int:
    response = client.post(COUNT, json=fields)
    assert response.status_code == 200, response.text
    body = response.get_json()
    assert body["object"] == "response.input_tokens"
    return body["input_tokens"]


def test_the_tokens_of_the_input_are_counted_and_nothing_is_generated(
    client: FlaskClient, backend: FakeBackend
) -> None:
    assert count(client, input="one two three") == count(client, input="one") + 2
    assert count(client, input="one", instructions="Be brief.") > count(client, input="one")
    assert backend.requests == []


def test_the_input_may_be_left_out_if_there_are_instructions(client: FlaskClient) -> None:
    assert count(client, instructions="Be brief.") > 0
    assert client.post(COUNT, json={}).status_code == 400


@pytest.mark.parametrize(
    ("fields", "status"),
    [({"input": 5}, 400), ({"input": "a", "model": "nope"}, 404), ({"input": [{"role": "bob"}]}, 400)],
)
def test_a_body_that_has_no_response_has_no_count(
    client: FlaskClient, fields: dict[str, Any], status: int
) -> None:
    assert client.post(COUNT, json=fields).status_code == status
