"""Reasoning in responses: an item of its own in the output, and in the input of the next response."""

from typing import Any

from flask.testing import FlaskClient

from inference.events import CallDelta, Finished, Started, Token
from inference.types import Message
from tests.api.openai.app_requests import RESPONSES, USER, events, get_response
from tests.fakes.fake_backend import FakeBackend, Script

REASONED: Script = [
    Started(0, prompt_tokens=9, cached_tokens=0, prompt_token_ids=(1, 2)),
    Token(0, 1, "", -0.1, spelling="<think>"),
    Token(0, 2, "", -0.2, spelling="Let", reasoning="Let"),
    Token(0, 3, "", -0.3, spelling=" me.\n", reasoning=" me."),
    Token(0, 4, "", -0.4, spelling="</think>"),
    Token(0, 5, "4", -0.5, spelling="4"),
    Finished(0, "stop", ".", num_tokens=6, num_reasoning_tokens=2),
]
TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
REASONING = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Let me."}]}
CALL = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": "{}"}


def without_ids(output: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in item.items() if key != "id"} for item in output]


def test_reasoning_is_an_item_before_the_message(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = REASONED
    got = get_response(client, RESPONSES)
    reasoning, message = got["output"]
    assert reasoning["id"].startswith("rs_")
    assert without_ids([reasoning]) == [REASONING | {"status": "completed"}]
    assert (message["type"], message["content"][0]["text"]) == ("message", "4.")
    assert got["usage"]["output_tokens_details"] == {"reasoning_tokens": 2}
    assert backend.requests[-1].separate_reasoning


def test_the_events_of_reasoning_have_openais_names(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = REASONED
    got = events(client)
    assert [event["type"].removeprefix("response.") for event in got] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    added, part_added, first, second, done, part_done, item_done = got[2:9]
    assert without_ids([added["item"]]) == [REASONING | {"status": "in_progress", "content": []}]
    assert part_added["part"] == {"type": "reasoning_text", "text": ""}
    assert (first["delta"], second["delta"], done["text"]) == ("Let", " me.", "Let me.")
    assert part_done["part"] == REASONING["content"][0]
    assert item_done["item"] == got[-1]["response"]["output"][0]
    ids = {event["item_id"] for event in (part_added, first, second, done, part_done)}
    assert ids == {added["item"]["id"]}
    assert {event["output_index"] for event in got[2:9]} == {0}
    assert {event["output_index"] for event in got[9:16]} == {1}


def test_an_answer_that_ends_in_its_reasoning_is_incomplete(
    client: FlaskClient, backend: FakeBackend
) -> None:
    end = Finished(0, "length", num_tokens=3, reasoning=" the", num_reasoning_tokens=2)
    backend.script = [*REASONED[:3], end]
    got = get_response(client, RESPONSES)
    [reasoning] = got["output"]
    assert (got["status"], reasoning["status"]) == ("incomplete", "incomplete")
    assert reasoning["content"][0]["text"] == "Let the"


def test_logprobs_are_those_of_the_message(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = REASONED
    got = get_response(client, RESPONSES, include=["message.output_text.logprobs"])
    [entry] = got["output"][1]["content"][0]["logprobs"]
    assert entry["token"] == "4"
    assert "logprobs" not in got["output"][0]["content"][0]


def test_a_call_follows_its_reasoning(client: FlaskClient, backend: FakeBackend) -> None:
    call = CallDelta(0, 0, "call_12", "get_weather", "{}", done=True)
    backend.script = [*REASONED[:5], call, Finished(0, "stop", num_tokens=8, num_reasoning_tokens=2)]
    got = get_response(client, RESPONSES, tools=[TOOL])
    assert [item["type"] for item in got["output"]] == ["reasoning", "function_call"]


def test_a_later_response_gets_the_reasoning_of_an_earlier_one(
    stored_client: FlaskClient, backend: FakeBackend
) -> None:
    backend.script = REASONED
    first = get_response(stored_client, RESPONSES)
    get_response(stored_client, RESPONSES, previous_response_id=first["id"])
    messages = [message for message in backend.requests[-1].prompt if isinstance(message, Message)]
    assert [(message.role, message.reasoning) for message in messages] == [
        ("user", ""),
        ("assistant", "Let me."),
        ("user", ""),
    ]
    listed = stored_client.get(f"{RESPONSES}/{first['id']}").get_json()
    assert listed["output"] == first["output"]


def test_reasoning_in_the_input_belongs_to_the_call_behind_it(
    client: FlaskClient, backend: FakeBackend
) -> None:
    result = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}
    get_response(client, RESPONSES, input=[USER, REASONING, REASONING, CALL, result], tools=[TOOL])
    _, called, _ = backend.requests[-1].prompt
    assert isinstance(called, Message)
    assert (called.reasoning, [call.name for call in called.tool_calls]) == (
        "Let me.Let me.",
        ["get_weather"],
    )


def test_reasoning_that_nothing_follows_is_left_out(client: FlaskClient, backend: FakeBackend) -> None:
    for items in ([USER, REASONING], [REASONING, USER], [USER, {"type": "reasoning", "summary": []}]):
        get_response(client, RESPONSES, input=items)
        assert list(backend.requests[-1].prompt) == [Message("user", "hi")]
