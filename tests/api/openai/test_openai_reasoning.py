"""The reasoning of a model in chat completions, as clients of vLLM, SGLang and llama.cpp read it."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from inference.events import CallDelta, Finished, Started, Token
from tests.api.openai.app_requests import CHATS, COMPLETIONS, WEATHER, chunks, get_response, refusal
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
CALLED: Script = [
    *REASONED[:5],
    CallDelta(0, 0, "call_12", "get_weather", '{"city": "Paris"}', done=True),
    Finished(0, "stop", num_tokens=8, num_reasoning_tokens=2),
]
LIMITED: Script = [
    *REASONED[:3],
    Finished(0, "length", num_tokens=3, reasoning=" the", num_reasoning_tokens=2),
]


def deltas(got: list[Any]) -> list[Any]:
    return [chunk["choices"][0]["delta"] for chunk in got if chunk["choices"]]


def both(reasoning: str) -> dict[str, str]:
    return {"reasoning_content": reasoning, "reasoning": reasoning}


def test_a_whole_chat_has_its_reasoning_apart_from_the_content(
    client: FlaskClient, backend: FakeBackend
) -> None:
    backend.script = REASONED
    got = get_response(client, CHATS)
    message = got["choices"][0]["message"]
    assert message == {
        "role": "assistant",
        "content": "4.",
        **both("Let me."),
        "refusal": None,
        "tool_calls": [],
    }
    assert got["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}
    assert backend.requests[-1].separate_reasoning


def test_a_stream_has_its_reasoning_in_deltas_of_its_own(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = REASONED
    got = chunks(client, CHATS, stream_options={"include_usage": True})
    _, *rest = deltas(got)
    assert rest == [both("Let"), both(" me."), {"content": "4"}, {"content": "."}]
    assert got[-1]["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}


def test_reasoning_that_the_limit_ends_comes_with_the_finish_reason(
    client: FlaskClient, backend: FakeBackend
) -> None:
    backend.script = LIMITED
    [last] = chunks(client, CHATS)[-1]["choices"]
    assert (last["delta"], last["finish_reason"]) == ({"content": "", **both(" the")}, "length")
    message = get_response(client, CHATS)["choices"][0]["message"]
    assert (message["content"], message["reasoning"]) == ("", "Let the")


def test_an_answer_without_reasoning_has_no_field_for_it(client: FlaskClient) -> None:
    got = get_response(client, CHATS)
    assert not {"reasoning", "reasoning_content"} & got["choices"][0]["message"].keys()
    assert "completion_tokens_details" not in got["usage"]


def test_calls_follow_the_reasoning(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = CALLED
    message = get_response(client, CHATS, tools=[WEATHER])["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == (None, "Let me.")
    assert len(message["tool_calls"]) == 1
    names = [next(iter(delta)) for delta in deltas(chunks(client, CHATS, tools=[WEATHER]))[1:-1]]
    assert names == ["reasoning_content", "reasoning_content", "tool_calls", "tool_calls"]


def test_include_reasoning_leaves_it_out(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = REASONED
    got = get_response(client, CHATS, include_reasoning=False)
    assert got["choices"][0]["message"].keys() == {"role", "content", "refusal", "tool_calls"}
    assert got["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}
    _, *rest = deltas(chunks(client, CHATS, include_reasoning=False))
    assert rest == [{"content": "4"}, {"content": "."}]


def test_stream_reasoning_sends_it_at_once(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = REASONED
    _, *rest = deltas(chunks(client, CHATS, stream_reasoning=False))
    assert rest == [{"content": "4", **both("Let me.")}, {"content": "."}]
    backend.script = CALLED
    _, first, *_ = deltas(chunks(client, CHATS, stream_reasoning=False, tools=[WEATHER]))
    assert first == both("Let me.")
    backend.script = LIMITED
    _, last = deltas(chunks(client, CHATS, stream_reasoning=False))
    assert last == {"content": "", **both("Let the")}


@pytest.mark.parametrize(
    ("fields", "separates"),
    [
        ({"reasoning_format": "none"}, False),
        ({"reasoning_format": "auto"}, True),
        ({"reasoning_format": "deepseek"}, True),
        ({"separate_reasoning": False}, False),
        ({"separate_reasoning": True}, True),
        ({"include_reasoning": False}, True),
    ],
)
def test_a_request_says_whether_the_content_has_the_reasoning(
    client: FlaskClient, backend: FakeBackend, fields: dict[str, Any], separates: bool
) -> None:
    get_response(client, CHATS, **fields)
    assert backend.requests[-1].separate_reasoning == separates


def test_an_unknown_reasoning_format_is_refused(client: FlaskClient) -> None:
    response = client.post(CHATS, json={"messages": [], "reasoning_format": "deepseek-legacy"})
    rule = "reasoning_format must be auto, deepseek or none, got deepseek-legacy"
    refusal(response, 400, rule, "BadRequestError")


def test_a_completion_is_never_separated(client: FlaskClient, backend: FakeBackend) -> None:
    get_response(client, COMPLETIONS)
    assert not backend.requests[-1].separate_reasoning


def test_logprobs_are_those_of_all_tokens(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = REASONED
    got = get_response(client, CHATS, logprobs=True)
    spellings = [entry["token"] for entry in got["choices"][0]["logprobs"]["content"]]
    assert spellings == ["<think>", "Let", " me.\n", "</think>", "4"]
    streamed = chunks(client, CHATS, logprobs=True)
    choices = [chunk["choices"][0] for chunk in streamed]
    assert [
        entry["token"] for choice in choices if choice["logprobs"] for entry in choice["logprobs"]["content"]
    ] == spellings
    assert [choice["delta"].get("content") for choice in choices[1:]] == ["", None, None, "", "4", "."]
