"""Chat completions as clients of OpenAI, vLLM and TGI read them, streamed and whole."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from inference.events import Finished, Started, Token, TopLogprob
from tests.api.openai.app_requests import CHATS, USER, WEATHER, chunks, get_response
from tests.api.openai.tool_call_script import CALL
from tests.fakes.fake_backend import FakeBackend, Script, say

TGIS_CLIENTS = ("python-requests/2.32.5", "Python/3.11 aiohttp/3.13.2")  # of text-generation
NAMED = {"type": "function", "function": {"name": "get_weather"}}
TOP = (TopLogprob(5, "é", -0.5), TopLogprob(6, "e", -1.5))
SCORED: Script = [
    Started(0, prompt_tokens=1, cached_tokens=0),
    Token(0, 5, "é", -0.5, TOP, spelling="é"),
    Token(0, 9, "", -0.1, (), is_special=True, spelling="<|eot|>"),
    Finished(0, "stop", num_tokens=2),
]


def deltas(got: list[Any]) -> list[Any]:
    return [chunk["choices"][0]["delta"] for chunk in got]


def test_a_whole_chat_has_vllms_shape(client: FlaskClient) -> None:
    got = get_response(client, CHATS)
    assert (got["object"], got["system_fingerprint"]) == ("chat.completion", "hearth-1.2.3")
    assert got["id"].startswith("chatcmpl-")
    assert got["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello world", "refusal": None, "tool_calls": []},
            "logprobs": None,
            "finish_reason": "stop",
            "stop_reason": None,
        }
    ]


def test_the_first_chunk_has_only_the_role(client: FlaskClient) -> None:
    first, *_ = chunks(client, CHATS)
    (choice,) = first["choices"]
    assert first["object"] == "chat.completion.chunk"
    assert choice["delta"] == {"role": "assistant", "content": "", "refusal": None}
    assert (choice["index"], choice["logprobs"], choice["finish_reason"]) == (0, None, None)


@pytest.mark.parametrize("agent", TGIS_CLIENTS)
def test_every_delta_has_the_fields_that_tgis_client_needs(
    client: FlaskClient, backend: FakeBackend, agent: str
) -> None:
    for script in (say("Hello", " world"), CALL):
        backend.script = script
        stream = chunks(client, CHATS, {"User-Agent": agent}, model="tgi", tools=[WEATHER])
        assert sum(len(chunk["choices"]) for chunk in stream) >= len(script)
        for chunk in stream:
            assert isinstance(chunk["id"], str)
            assert isinstance(chunk["system_fingerprint"], str)
            for choice in chunk["choices"]:
                assert choice["delta"]["role"] == "assistant"
                assert "tool_calls" in choice["delta"]


@pytest.mark.parametrize(
    ("agent", "model"),
    [
        ("OpenAI/Python 3.54.0", "fake/model"),
        ("hf_hub/0.36.2; python/3.11", "tgi"),
        (TGIS_CLIENTS[0], "fake/model"),
        (TGIS_CLIENTS[1], None),
    ],
)
def test_other_clients_get_the_role_once_because_they_join_deltas(
    client: FlaskClient, backend: FakeBackend, agent: str, model: str | None
) -> None:
    first, *rest = deltas(chunks(client, CHATS, {"User-Agent": agent}, model=model))
    assert first["role"] == "assistant"
    assert rest == [{"content": "Hello"}, {"content": " world"}, {"content": ""}]
    backend.script = CALL
    got = deltas(chunks(client, CHATS, {"User-Agent": agent}, model=model, tools=[WEATHER]))
    assert [set(delta) for delta in got[1:]] == [{"tool_calls"}] * 5 + [set()]
    assert all(isinstance(call, dict) for delta in got for call in delta.get("tool_calls", []))


def test_a_call_is_streamed_with_its_name_first(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = CALL
    got = chunks(client, CHATS, tools=[WEATHER])
    calls = [call for delta in deltas(got) for call in delta.get("tool_calls", ())]
    named = {"id": "chatcmpl-tool-12", "type": "function"}
    assert calls == [
        {"index": 0, **named, "function": {"name": "get_weather", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"city": '}},
        {"index": 0, "function": {"arguments": '"Paris"}'}},
        {
            "index": 1,
            **named,
            "id": "chatcmpl-tool-34",
            "function": {"name": "get_time", "arguments": ""},
        },
        {"index": 1, "function": {"arguments": '{"at": 1}'}},
    ]
    assert got[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_a_whole_chat_contains_its_calls(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = CALL
    (choice,) = get_response(client, CHATS, tools=[WEATHER])["choices"]
    weather, time = choice["message"]["tool_calls"]
    assert weather == {
        "id": "chatcmpl-tool-12",
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
    }
    assert time["function"] == {"name": "get_time", "arguments": '{"at": 1}'}
    assert (choice["message"]["content"], choice["finish_reason"]) == (None, "tool_calls")


def test_a_call_of_a_named_tool_ends_with_reason_stop(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = CALL
    (choice,) = get_response(client, CHATS, tools=[WEATHER], tool_choice=NAMED)["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("", "stop")
    last = chunks(client, CHATS, tools=[WEATHER], tool_choice="get_weather")[-1]
    assert last["choices"][0]["finish_reason"] == "stop"
    demanded = get_response(client, CHATS, tools=[WEATHER], tool_choice="required")
    assert demanded["choices"][0]["finish_reason"] == "tool_calls"


def test_a_truncated_call_is_sent_as_far_as_it_was_generated(
    client: FlaskClient, backend: FakeBackend
) -> None:
    backend.script = [*CALL[:4], Finished(0, "length", num_tokens=3)]
    (choice,) = get_response(client, CHATS, tools=[WEATHER])["choices"]
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == '{"city": '
    assert choice["finish_reason"] == "length"


def test_logprobs_list_each_token_its_bytes_and_alternatives(
    client: FlaskClient, backend: FakeBackend
) -> None:
    backend.script = SCORED
    (choice,) = get_response(client, CHATS, logprobs=True, top_logprobs=1)["choices"]
    first = {"token": "é", "logprob": -0.5, "bytes": [195, 169]}
    end = {"token": "<|eot|>", "logprob": -0.1, "bytes": list(b"<|eot|>"), "top_logprobs": []}
    assert choice["logprobs"] == {"content": [first | {"top_logprobs": [first]}, end], "refusal": None}
    assert backend.requests[0].logprobs == 1


def test_logprobs_without_top_logprobs_have_no_alternatives(
    client: FlaskClient, backend: FakeBackend
) -> None:
    backend.script = SCORED
    (choice,) = get_response(client, CHATS, logprobs=True)["choices"]
    assert [entry["top_logprobs"] for entry in choice["logprobs"]["content"]] == [[], []]


def test_streamed_logprobs_come_with_each_token_and_the_finish_reason_with_the_last(
    client: FlaskClient, backend: FakeBackend
) -> None:
    backend.script = SCORED
    got = chunks(client, CHATS, logprobs=True)
    entries = [chunk["choices"][0]["logprobs"] for chunk in got]
    assert [entry and [each["token"] for each in entry["content"]] for entry in entries] == [
        None,
        ["é"],
        ["<|eot|>"],
    ]
    assert got[-1]["choices"][0]["finish_reason"] == "stop"


def test_the_last_possible_token_is_sent_with_the_end_of_each_answer(
    client: FlaskClient, backend: FakeBackend
) -> None:
    backend.script = [*say("a", "b", reason="length"), *say("x", "y", index=1, reason="length")]
    got = chunks(client, CHATS, n=2, max_completion_tokens=2, logprobs=True)
    choices = [choice for chunk in got for choice in chunk["choices"]]
    ends = [choice for choice in choices if choice["finish_reason"]]
    assert [choice["delta"]["content"] for choice in ends] == ["b", "y"]
    assert [choice["logprobs"]["content"][0]["token"] for choice in ends] == ["b", "y"]
    assert [choice["delta"]["content"] for choice in choices] == ["", "a", "b", "", "x", "y"]


def test_several_answers_are_distinguished_by_their_index(client: FlaskClient, backend: FakeBackend) -> None:
    a, b = say("a", "b"), say("x", "y", index=1)
    backend.script = [step for pair in zip(a, b, strict=True) for step in pair]
    got = chunks(client, CHATS, n=2)
    texts = {0: "", 1: ""}
    for chunk in got:
        (choice,) = chunk["choices"]
        texts[choice["index"]] += choice["delta"].get("content", "")
    assert texts == {0: "ab", 1: "xy"}
    assert [c["message"]["content"] for c in get_response(client, CHATS, n=2)["choices"]] == ["ab", "xy"]


def test_an_echo_begins_with_the_assistants_own_last_message(client: FlaskClient) -> None:
    messages = [USER, {"role": "assistant", "content": "Well, "}]
    fields: dict[str, Any] = {"messages": messages, "echo": True, "continue_final_message": True}
    assert get_response(client, CHATS, **fields)["choices"][0]["message"]["content"] == "Well, Hello world"
    fields_with_parts = fields | {
        "messages": [USER, {"role": "assistant", "content": ["We", {"text": "ll, "}]}]
    }
    assert (
        get_response(client, CHATS, **fields_with_parts)["choices"][0]["message"]["content"]
        == "Well, Hello world"
    )
    text = "".join(delta.get("content", "") for delta in deltas(chunks(client, CHATS, **fields)))
    assert text == "Well, Hello world"
    assert get_response(client, CHATS, echo=True)["choices"][0]["message"]["content"] == "Hello world"


def test_token_ids_of_prompt_and_answer_are_returned_on_request(
    client: FlaskClient, backend: FakeBackend
) -> None:
    backend.script = CALL
    got = get_response(client, CHATS, return_token_ids=True)
    assert (got["prompt_token_ids"], got["choices"][0]["token_ids"]) == ([1, 2], [7])
    first, second, *_ = chunks(client, CHATS, return_token_ids=True)
    assert first["prompt_token_ids"] == [1, 2]
    assert second["choices"][0]["token_ids"] == [7]
