"""POST /v1/responses/compact, and responses whose input has its item."""

from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient

from api.openai.responses.compaction import INSTRUCTION, MAX_SUMMARY_TOKENS
from api.openai.responses.summary import decode_summary, encode_summary
from inference.content import content_text
from tests.api.openai.app_requests import RESPONSES, get_response
from tests.fakes.fake_backend import FakeBackend

COMPACT = f"{RESPONSES}/compact"
TURNS = [
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "two"},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "three"},
    {"role": "user", "content": "four"},
]


def compact(client: FlaskClient, **fields: Any) -> Any:
    response = client.post(COMPACT, json={"model": "tgi", **fields})
    assert response.status_code == 200, response.text
    return response.get_json()


def prompt(backend: FakeBackend) -> list[tuple[str, str]]:
    messages: Any = backend.requests[-1].prompt
    return [(message.role, content_text(message.content)) for message in messages]


def test_the_users_messages_and_a_summary_are_left(client: FlaskClient, backend: FakeBackend) -> None:
    body = compact(client, input=TURNS, instructions="Be brief.")
    assert body["object"] == "response.compaction" and body["id"].startswith("resp_")
    *messages, compaction = body["output"]
    assert [message["content"] for message in messages] == [
        [{"type": "input_text", "text": text}] for text in ("one", "four")
    ]
    assert all(message["id"] and message["status"] == "completed" for message in messages)
    assert compaction["type"] == "compaction" and compaction["id"].startswith("cmp_")
    assert decode_summary(compaction["encrypted_content"]) == "Hello world"
    assert body["usage"]["output_tokens"] == 2
    (system, _), *turns, last = prompt(backend)
    assert system == "system" and turns[0] == ("user", "one") and last == ("user", INSTRUCTION)


def test_the_next_response_reads_the_summary(client: FlaskClient, backend: FakeBackend) -> None:
    output = compact(client, input=TURNS)["output"]
    get_response(client, RESPONSES, input=[*output, {"role": "user", "content": "go on"}])
    summary = ("user", "Summary of the conversation so far:\nHello world")
    assert prompt(backend) == [("user", "one"), ("user", "four"), summary, ("user", "go on")]


def test_a_stored_chain_is_compacted(stored_client: FlaskClient) -> None:
    first = get_response(stored_client, RESPONSES, input="stored")
    *messages, _ = compact(stored_client, previous_response_id=first["id"])["output"]
    assert [message["content"][0]["text"] for message in messages] == ["stored"]


@pytest.mark.parametrize("body", [{"input": "x"}, {"model": "tgi"}, {"model": "tgi", "input": []}])
def test_a_model_and_a_conversation_are_needed(client: FlaskClient, body: dict[str, Any]) -> None:
    response = client.post(COMPACT, json=body)
    assert response.status_code == 400, response.text
    assert response.get_json()["error"]["param"] == ("model" if "model" not in body else "input")


def test_a_long_conversation_leaves_room_for_the_summary(client: FlaskClient, backend: FakeBackend) -> None:
    context = replace(backend.info(), context=400)
    backend.info = lambda: context  # type: ignore[method-assign]
    compact(client, input=TURNS)
    (request,) = backend.requests
    assert (request.max_tokens, request.truncate) == (100, 300)
    assert MAX_SUMMARY_TOKENS > 100


def test_what_another_server_made_is_no_summary() -> None:
    assert decode_summary(encode_summary("ä")) == "ä"
    assert [decode_summary(content) for content in ("zzz", "", "ä", "AAAA")] == [None] * 4
