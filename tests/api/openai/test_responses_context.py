"""Earlier turns of a response: previous_response_id, conversations and references to items."""

import json
from typing import Any

import pytest
from flask.testing import FlaskClient

from api.store import context
from inference.content import content_text
from inference.events import CallDelta, Finished, Started
from tests.api.openai.app_requests import RESPONSES, body_for, get_response
from tests.fakes.fake_backend import FakeBackend

CONVERSATIONS = "/v1/conversations"
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
CUSTOM = {"type": "custom", "name": "run"}


def prompt(backend: FakeBackend) -> list[tuple[str, str]]:
    """Role and text of each message of the last request."""
    messages: Any = backend.requests[-1].prompt
    return [(message.role, content_text(message.content)) for message in messages]


def reference(id: str) -> dict[str, str]:
    return {"type": "item_reference", "id": id}


def refuse(client: FlaskClient, **fields: Any) -> tuple[int, str]:
    response = client.post(RESPONSES, json=body_for(RESPONSES, **fields))
    return response.status_code, response.get_json()["error"]["message"]


def test_a_response_continues_a_chain(stored_client: FlaskClient, backend: FakeBackend) -> None:
    first = get_response(stored_client, RESPONSES, input="one", instructions="Be brief.")
    second = get_response(stored_client, RESPONSES, input="two", previous_response_id=first["id"])
    assert second["previous_response_id"] == first["id"]
    get_response(stored_client, RESPONSES, input="three", previous_response_id=second["id"])
    first_answer = ("assistant", "Hello world")
    assert prompt(backend) == [
        ("user", "one"),
        first_answer,
        ("user", "two"),
        first_answer,
        ("user", "three"),
    ]


@pytest.mark.parametrize("sent_input", [{}, {"input": None}, {"input": []}])
def test_earlier_turns_are_continued_without_an_input(
    stored_client: FlaskClient, backend: FakeBackend, sent_input: dict[str, Any]
) -> None:
    """As OpenAI's API does: one of input, previous_response_id and conversation is enough."""
    items = {"items": [{"role": "user", "content": "one"}]}
    conversation = stored_client.post(CONVERSATIONS, json=items).get_json()["id"]
    first = stored_client.post(RESPONSES, json={"conversation": conversation, **sent_input}).get_json()
    assert prompt(backend) == [("user", "one")]
    second = stored_client.post(RESPONSES, json={"previous_response_id": first["id"], **sent_input})
    assert second.status_code == 200, second.text
    assert prompt(backend) == [("user", "one"), ("assistant", "Hello world")]


def test_one_response_may_be_continued_twice(stored_client: FlaskClient, backend: FakeBackend) -> None:
    first = get_response(stored_client, RESPONSES, input="one")
    for text in ("left", "right"):
        get_response(stored_client, RESPONSES, input=text, previous_response_id=first["id"])
        assert prompt(backend) == [("user", "one"), ("assistant", "Hello world"), ("user", text)]


def test_the_input_items_of_a_chain_are_all_it_was_made_from(stored_client: FlaskClient) -> None:
    first = get_response(stored_client, RESPONSES, input="one")
    second = get_response(stored_client, RESPONSES, input="two", previous_response_id=first["id"])
    listed = stored_client.get(f"{RESPONSES}/{second['id']}/input_items?order=asc").get_json()["data"]
    texts = [item["content"][0]["text"] for item in listed]
    assert texts == ["one", "Hello world", "two"] and listed[1]["id"] == first["output"][0]["id"]


def test_a_call_and_its_output_are_kept_and_reasoning_is_left_out(
    stored_client: FlaskClient, backend: FakeBackend
) -> None:
    call = CallDelta(0, 0, "call_1", "f", '{"a": 1}', True)
    backend.script = [Started(0, 3, 0), call, Finished(0, "stop", num_tokens=1)]
    sent = [{"role": "user", "content": "go"}, {"type": "reasoning", "summary": [], "id": "rs_1"}]
    first = get_response(stored_client, RESPONSES, input=sent, tools=[TOOL])
    (item,) = first["output"]
    output = {"type": "function_call_output", "call_id": item["call_id"], "output": "done"}
    get_response(stored_client, RESPONSES, input=[output], tools=[TOOL], previous_response_id=first["id"])
    _, called, result = backend.requests[-1].prompt
    (tool_call,) = called.tool_calls  # type: ignore[union-attr]
    assert (tool_call.name, tool_call.arguments, tool_call.id) == ("f", '{"a": 1}', item["call_id"])
    assert (result.role, result.content, result.name) == ("tool", "done", "f")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "make_reference", [reference, lambda id: {"id": id}, lambda id: {"id": id, "type": None}]
)
def test_a_reference_is_replaced_by_its_item(
    stored_client: FlaskClient, backend: FakeBackend, make_reference: Any
) -> None:
    first = get_response(stored_client, RESPONSES, input="one")
    sent = [
        {"role": "user", "content": "one"},
        make_reference(first["output"][0]["id"]),
        {"role": "user", "content": "2"},
    ]
    second = get_response(stored_client, RESPONSES, input=sent)
    assert prompt(backend) == [("user", "one"), ("assistant", "Hello world"), ("user", "2")]
    listed = stored_client.get(f"{RESPONSES}/{second['id']}/input_items?order=asc").get_json()["data"]
    assert listed[1] == first["output"][0]


def test_a_referenced_custom_call_keeps_its_input(stored_client: FlaskClient, backend: FakeBackend) -> None:
    call = CallDelta(0, 0, "call_1", "run", '{"input": "ls"}', True)
    backend.script = [Started(0, 3, 0), call, Finished(0, "stop", num_tokens=1)]
    (item,) = get_response(stored_client, RESPONSES, tools=[CUSTOM])["output"]
    output = {"type": "custom_tool_call_output", "call_id": item["call_id"], "output": "x"}
    get_response(stored_client, RESPONSES, input=[reference(item["id"]), output], tools=[CUSTOM])
    called: Any = backend.requests[-1].prompt[0]
    assert json.loads(called.tool_calls[0].arguments) == {"input": "ls"}


def test_the_items_of_the_input_can_be_referenced_too(
    stored_client: FlaskClient, backend: FakeBackend
) -> None:
    first = get_response(stored_client, RESPONSES, input="one")
    (item,) = stored_client.get(f"{RESPONSES}/{first['id']}/input_items").get_json()["data"]
    get_response(stored_client, RESPONSES, input=[reference(item["id"])])
    assert prompt(backend) == [("user", "one")]


def test_unknown_ids_are_not_found(stored_client: FlaskClient) -> None:
    assert refuse(stored_client, previous_response_id="resp_1") == (
        404,
        "Response with id 'resp_1' not found.",
    )
    assert refuse(stored_client, conversation="c") == (404, "Conversation with id 'c' not found.")
    sent = [{"role": "user", "content": "x"}, reference("msg_1")]
    assert refuse(stored_client, input=sent) == (404, "input[1]: item with id 'msg_1' not found.")
    status, message = refuse(stored_client, input=[{"type": "item_reference"}])
    assert (status, message) == (400, "input[0] is an item_reference and needs an id")


def test_a_chain_with_a_deleted_response_is_not_found(stored_client: FlaskClient) -> None:
    first = get_response(stored_client, RESPONSES)
    second = get_response(stored_client, RESPONSES, previous_response_id=first["id"])
    stored_client.delete(f"{RESPONSES}/{first['id']}")
    status, message = refuse(stored_client, previous_response_id=second["id"])
    assert status == 404 and first["id"] in message


def test_a_chain_that_is_too_long_is_refused(
    stored_client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "MAX_CHAIN", 2)
    id = None
    for _ in range(3):
        id = get_response(stored_client, RESPONSES, previous_response_id=id)["id"]
    status, message = refuse(stored_client, previous_response_id=id)
    assert status == 400 and "more than 2 responses precede" in message


def test_earlier_turns_that_are_too_large_are_refused(stored_client: FlaskClient) -> None:
    """A short request must not make the server read any number of stored bytes."""
    first = get_response(
        stored_client, RESPONSES, input=[{"role": "user", "content": "x" * 800_000, "id": "m"}]
    )
    status, message = refuse(stored_client, input=[reference("m")] * 11)
    assert status == 400 and "more than 8388608 bytes" in message
    for _ in range(10):
        sent = [reference("m")]
        first = get_response(stored_client, RESPONSES, input=sent, previous_response_id=first["id"])
    status, message = refuse(stored_client, previous_response_id=first["id"])
    assert status == 400 and "more than 8388608 bytes" in message


def test_previous_response_id_and_conversation_exclude_each_other(stored_client: FlaskClient) -> None:
    status, message = refuse(stored_client, previous_response_id="a", conversation="b")
    assert status == 400 and "cannot both be set" in message


def test_an_error_names_the_item_of_the_request(stored_client: FlaskClient) -> None:
    first = get_response(stored_client, RESPONSES)
    sent = [{"type": "function_call_output", "call_id": "c"}]
    _, message = refuse(stored_client, input=sent, previous_response_id=first["id"])
    assert message.startswith("input[0] ")


@pytest.mark.parametrize("make_reference", [lambda id: id, lambda id: {"id": id}])
def test_a_conversation_grows_with_its_responses(
    stored_client: FlaskClient, backend: FakeBackend, make_reference: Any
) -> None:
    items = [{"role": "user", "content": "one"}]
    id = stored_client.post(CONVERSATIONS, json={"items": items}).get_json()["id"]
    response = get_response(stored_client, RESPONSES, input="two", conversation=make_reference(id))
    assert response["conversation"] == {"id": id}
    unstored = get_response(stored_client, RESPONSES, input="three", conversation=id, store=False)
    assert unstored["store"] is False
    assert prompt(backend) == [
        ("user", "one"),
        ("user", "two"),
        ("assistant", "Hello world"),
        ("user", "three"),
    ]
    listed = stored_client.get(f"{CONVERSATIONS}/{id}/items?order=asc").get_json()["data"]
    assert [item["role"] for item in listed] == ["user", "user", "assistant", "user", "assistant"]
    assert listed[2] == response["output"][0]


def test_a_response_of_a_conversation_is_continued_as_it_was(
    stored_client: FlaskClient, backend: FakeBackend
) -> None:
    """Its earlier items are those that the conversation had then."""
    id = stored_client.post(CONVERSATIONS, json={}).get_json()["id"]
    get_response(stored_client, RESPONSES, input="one", conversation=id)
    second = get_response(stored_client, RESPONSES, input="two", conversation=id)
    get_response(stored_client, RESPONSES, input="three", conversation=id)
    get_response(stored_client, RESPONSES, input="four", previous_response_id=second["id"])
    texts = [text for role, text in prompt(backend) if role == "user"]
    assert texts == ["one", "two", "four"]


def test_the_counted_tokens_are_those_of_the_whole_input(stored_client: FlaskClient) -> None:
    first = get_response(stored_client, RESPONSES, input="one")

    def count(**fields: Any) -> int:
        return int(
            stored_client.post(f"{RESPONSES}/input_tokens", json={"input": "2", **fields}).get_json()[
                "input_tokens"
            ]
        )

    assert count(previous_response_id=first["id"]) > count()
