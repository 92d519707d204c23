"""Streamed and whole replies, byte for byte as recorded from the real servers and clients."""

import json

import pytest
from flask.testing import FlaskClient

from inference.events import CallDelta, Event, Finished, Started, Token, TopLogprob
from tests.fakes.fake_backend import FakeBackend, say

ASK = {"model": "fake/model", "messages": [{"role": "user", "content": "hi"}]}
COMPLETE = {"model": "fake/model", "content": "Once"}
OLD = "/inference/chat_completion"
ALPHA = "/alpha/inference/chat-completion"
NEW = "/v1/inference/chat-completion"
PASSTHROUGH = "/passthrough/v1/inference/chat-completion"

CALL: list[Event] = [
    Started(0, prompt_tokens=9, cached_tokens=0),
    Token(0, 7, ""),
    CallDelta(0, 0, "call-1", "get_weather", '{"city": ', done=False),
    CallDelta(0, 0, "call-1", "get_weather", '"Paris"}', done=True),
    Finished(0, "stop", num_tokens=8),
]
CUT_CALL = [*CALL[:3], Finished(0, "length", num_tokens=3)]


def sse(client: FlaskClient, path: str, body: dict) -> list[str]:
    response = client.post(path, json=body | {"stream": True}, headers={"Accept": "text/event-stream"})
    assert response.status_code == 200
    *events, last = response.text.split("\n\n")
    assert last == ""
    assert all(event.startswith("data: ") for event in events)
    return [event.removeprefix("data: ") for event in events]


def deltas(client: FlaskClient, path: str) -> list:
    return [json.loads(event)["event"]["delta"] for event in sse(client, path, ASK)]


def get_response(client: FlaskClient, path: str, body: dict) -> dict:
    response = client.post(path, json=body)
    assert response.status_code == 200
    assert response.mimetype == "application/json"
    return response.get_json()


def test_a_chat_stream_of_the_v1_generation_is_as_captured(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = say("The", reason="length")
    metrics = (
        '[{"metric":"prompt_tokens","value":3,"unit":null},{"metric":"completion_tokens","value":1,"unit":null},'
        '{"metric":"total_tokens","value":4,"unit":null}]'
    )
    assert sse(client, NEW, ASK) == [
        '{"metrics":null,"event":{"event_type":"start","delta":{"type":"text","text":""},'
        '"logprobs":null,"stop_reason":null}}',
        '{"metrics":null,"event":{"event_type":"progress","delta":{"type":"text","text":"The"},'
        '"logprobs":null,"stop_reason":null}}',
        '{"metrics":' + metrics + ',"event":{"event_type":"complete","delta":{"type":"text","text":""},'
        '"logprobs":null,"stop_reason":"out_of_tokens"}}',
    ]


@pytest.mark.parametrize("path", [OLD, ALPHA])
def test_a_chat_stream_of_the_older_generations_is_as_captured(
    client: FlaskClient, backend: FakeBackend, path: str
) -> None:
    backend.script = say("The", reason="length")
    assert sse(client, path, ASK) == [
        '{"event":{"event_type":"start","delta":"","logprobs":null,"stop_reason":null}}',
        '{"event":{"event_type":"progress","delta":"The","logprobs":null,"stop_reason":null}}',
        '{"event":{"event_type":"complete","delta":"","logprobs":null,"stop_reason":"out_of_tokens"}}',
    ]


@pytest.mark.parametrize("prefix", ["", "/alpha", "/v1", "/passthrough/v1"])
def test_a_completion_stream_is_the_same_in_all_generations(
    client: FlaskClient, backend: FakeBackend, prefix: str
) -> None:
    backend.script = say("The", reason="length")
    assert sse(client, f"{prefix}/inference/completion", COMPLETE) == [
        '{"delta":"The","stop_reason":null,"logprobs":null}',
        '{"delta":"","stop_reason":"out_of_tokens","logprobs":null}',
    ]


@pytest.mark.parametrize("path", [OLD, ALPHA])
def test_a_whole_chat_is_as_captured(client: FlaskClient, backend: FakeBackend, path: str) -> None:
    backend.script = say("The", " quick", reason="length")
    assert client.post(path, json=ASK).text == (
        '{"completion_message":{"role":"assistant","content":"The quick","stop_reason":"out_of_tokens",'
        '"tool_calls":[]},"logprobs":null}'
    )


def test_a_whole_chat_of_the_v1_generation_counts_its_tokens(client: FlaskClient) -> None:
    reply = get_response(client, NEW, ASK)
    assert reply["completion_message"]["content"] == "Hello world"
    assert [(metric["metric"], metric["value"]) for metric in reply["metrics"]] == [
        ("prompt_tokens", 3),
        ("completion_tokens", 2),
        ("total_tokens", 5),
    ]


def test_a_whole_chat_for_the_passthrough_provider_has_its_content_in_an_object(client: FlaskClient) -> None:
    message = get_response(client, PASSTHROUGH, ASK)["completion_message"]
    assert message["content"] == {"type": "text", "text": "Hello world"}


def test_a_whole_completion_is_content_and_stop_reason(client: FlaskClient) -> None:
    reply = get_response(client, "/alpha/inference/completion", COMPLETE)
    assert reply == {"content": "Hello world", "stop_reason": "end_of_turn", "logprobs": None}


def test_a_whole_completion_of_the_v1_generation_counts_its_tokens(client: FlaskClient) -> None:
    reply = get_response(client, "/v1/inference/completion", COMPLETE)
    assert [metric["value"] for metric in reply.pop("metrics")] == [3, 2, 5]
    assert reply == {"content": "Hello world", "stop_reason": "end_of_turn", "logprobs": None}


def test_a_whole_completion_on_the_root_suits_two_versions_of_clients(client: FlaskClient) -> None:
    reply = get_response(client, "/inference/completion", COMPLETE)
    assert (reply["content"], reply["stop_reason"]) == ("Hello world", "end_of_turn")
    assert reply["completion_message"] == {
        "role": "assistant",
        "content": "Hello world",
        "stop_reason": "end_of_turn",
        "tool_calls": [],
    }


@pytest.mark.parametrize(
    ("reason", "stop_reason"),
    [
        ("stop", "end_of_turn"),
        ("length", "out_of_tokens"),
        ("deadline", "end_of_message"),
        ("cancelled", "end_of_message"),
    ],
)
def test_the_stop_reason_says_why(
    client: FlaskClient, backend: FakeBackend, reason: str, stop_reason: str
) -> None:
    backend.script = say("The", reason=reason)
    assert get_response(client, NEW, ASK)["completion_message"]["stop_reason"] == stop_reason
    assert json.loads(sse(client, NEW, ASK)[-1])["event"]["stop_reason"] == stop_reason
    assert json.loads(sse(client, "/inference/completion", COMPLETE)[-1])["stop_reason"] == stop_reason


def test_text_withheld_to_the_end_is_a_progress_event_before_an_empty_complete_event(
    client: FlaskClient, backend: FakeBackend
) -> None:
    backend.script = [Started(0, 3, 0), Token(0, 1, ""), Finished(0, "stop", text="end", num_tokens=1)]
    assert deltas(client, OLD) == ["", "end", ""]
    assert get_response(client, OLD, ASK)["completion_message"]["content"] == "end"
    completion = sse(client, "/inference/completion", COMPLETE)
    assert [json.loads(event)["delta"] for event in completion] == ["end", ""]


def test_a_tool_call_is_streamed_in_pieces_and_then_whole_in_the_v1_generation(
    client: FlaskClient, backend: FakeBackend
) -> None:
    backend.script = CALL
    call = {
        "call_id": "call-1",
        "tool_name": "get_weather",
        "arguments": {"city": "Paris"},
        "arguments_json": '{"city": "Paris"}',
    }
    assert deltas(client, NEW) == [
        {"type": "text", "text": ""},
        {"type": "tool_call", "tool_call": "", "parse_status": "started"},
        {"type": "tool_call", "tool_call": '{"city": ', "parse_status": "in_progress"},
        {"type": "tool_call", "tool_call": '"Paris"}', "parse_status": "in_progress"},
        {"type": "tool_call", "tool_call": call, "parse_status": "succeeded"},
        {"type": "text", "text": ""},
    ]
    assert json.loads(sse(client, NEW, ASK)[-1])["event"]["stop_reason"] == "end_of_message"


@pytest.mark.parametrize("path", [OLD, ALPHA])
def test_a_tool_call_is_streamed_in_pieces_and_then_whole_in_the_older_generations(
    client: FlaskClient, backend: FakeBackend, path: str
) -> None:
    backend.script = CALL
    call = {"call_id": "call-1", "tool_name": "get_weather", "arguments": {"city": "Paris"}}
    assert deltas(client, path) == [
        "",
        {"content": "", "parse_status": "started"},
        {"content": '{"city": ', "parse_status": "in_progress"},
        {"content": '"Paris"}', "parse_status": "in_progress"},
        {"content": call, "parse_status": "success"},
        "",
    ]


@pytest.mark.parametrize(("path", "failed"), [(OLD, "failure"), (NEW, "failed")])
def test_a_truncated_tool_call_is_reported_as_failed(
    client: FlaskClient, backend: FakeBackend, path: str, failed: str
) -> None:
    backend.script = CUT_CALL
    *_, last, _ = deltas(client, path)
    assert last["parse_status"] == failed
    message = get_response(client, path, ASK)["completion_message"]
    assert (message["tool_calls"], message["stop_reason"]) == ([], "out_of_tokens")


@pytest.mark.parametrize("path", [OLD, ALPHA, NEW, PASSTHROUGH])
def test_a_whole_chat_lists_its_tool_calls(client: FlaskClient, backend: FakeBackend, path: str) -> None:
    backend.script = CALL
    message = get_response(client, path, ASK)["completion_message"]
    assert message["stop_reason"] == "end_of_message"
    assert [(call["tool_name"], call["arguments"]) for call in message["tool_calls"]] == [
        ("get_weather", {"city": "Paris"})
    ]


def test_logprobs_come_once_per_token_and_only_if_requested(
    client: FlaskClient, backend: FakeBackend
) -> None:
    assert get_response(client, OLD, ASK)["logprobs"] is None
    assert get_response(client, OLD, ASK | {"logprobs": {"top_k": 1}})["logprobs"] == [
        {"logprobs_by_token": {"Hello": -0.5}},
        {"logprobs_by_token": {" world": -0.5}},
    ]
    stream = sse(client, "/v1/inference/completion", COMPLETE | {"logprobs": {}})
    events = [json.loads(event) for event in stream]
    assert events[0]["logprobs"] == [{"logprobs_by_token": {"Hello": -0.5}}]
    assert events[-1]["logprobs"] is None


def test_a_token_without_text_is_streamed_only_for_its_logprobs(
    client: FlaskClient, backend: FakeBackend
) -> None:
    backend.script = [Started(0, 3, 0), Token(0, 5, "", -0.1), Finished(0, "stop", num_tokens=1)]
    assert len(sse(client, NEW, ASK)) == 2
    assert len(sse(client, NEW, ASK | {"logprobs": {"top_k": 1}})) == 3


def test_a_chosen_token_keeps_its_logprob_where_texts_collide(
    client: FlaskClient, backend: FakeBackend
) -> None:
    top = (TopLogprob(1, "\ufffd", -0.1), TopLogprob(2, "\ufffd", -2.5), TopLogprob(3, "a", float("-inf")))
    backend.script = [Started(0, 3, 0), Token(0, 2, "", -2.5, top), Finished(0, "stop", num_tokens=1)]
    assert get_response(client, OLD, ASK | {"logprobs": {"top_k": 3}})["logprobs"] == [
        {"logprobs_by_token": {"\ufffd": -2.5, "a": -9999.0}}
    ]


@pytest.mark.parametrize("path", ["/batch_inference/completion", "/inference/batch_completion"])
def test_a_batch_of_completions_is_answered_in_order(
    client: FlaskClient, backend: FakeBackend, path: str
) -> None:
    backend.script = lambda request: say(request.prompt, "!")
    reply = get_response(client, path, {"model": "model", "content_batch": ["a", "b"]})
    assert [item["content"] for item in reply["batch"]] == ["a!", "b!"]
    assert [message["content"] for message in reply["completion_message_batch"]] == ["a!", "b!"]


@pytest.mark.parametrize(
    "path", ["/v1/inference/batch-chat-completion", "/v1/batch-inference/chat-completion"]
)
def test_a_batch_of_chats_is_answered_in_order(client: FlaskClient, backend: FakeBackend, path: str) -> None:
    backend.script = lambda request: say(request.prompt[0].content, "!")
    conversations = [[{"role": "user", "content": text}] for text in "ab"]
    reply = get_response(client, path, {"model_id": "model", "messages_batch": conversations})
    assert [item["completion_message"]["content"] for item in reply["batch"]] == ["a!", "b!"]
    assert "completion_message_batch" not in reply


@pytest.mark.parametrize("path", [OLD, ALPHA, NEW])
def test_a_whole_reply_is_json_whatever_accept_says(client: FlaskClient, path: str) -> None:
    response = client.post(path, json=ASK, headers={"Accept": "text/event-stream"})
    assert response.mimetype == "application/json"
    assert response.get_json()["completion_message"]["role"] == "assistant"


def test_the_predecessors_client_reads_lines(client: FlaskClient) -> None:
    """The client sends the default headers of `requests` and reads each line's delta as text."""
    headers = {"Accept": "*/*", "User-Agent": "python-requests/2.32.3"}
    text = ""
    chat = client.post(OLD, json=ASK | {"stream": True}, headers=headers)
    assert chat.mimetype == "application/x-ndjson"
    for line in chat.text.splitlines():
        text += json.loads(line)["event"]["delta"]
    completion = client.post("/inference/completion", json=COMPLETE | {"stream": True}, headers=headers)
    for line in completion.text.splitlines():
        text += json.loads(line)["delta"]
    assert text == "Hello worldHello world"
