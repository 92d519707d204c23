"""Greedy answers to one prompt are equal: one is generated, and each choice is a copy of it."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from settings.groups import ServerSettings
from tests.api.openai.app_requests import CHATS, COMPLETIONS, WEATHER, chunks, get_response
from tests.api.openai.tool_call_script import CALL
from tests.fakes.fake_backend import FakeBackend, make_models, say

GREEDY: dict[str, Any] = {"temperature": 0}


def test_greedy_answers_are_generated_once_and_counted_each(
    client: FlaskClient, backend: FakeBackend
) -> None:
    got = get_response(client, CHATS, n=3, **GREEDY)
    (first, *others) = got["choices"]
    assert first["message"]["content"] == "Hello world"
    assert others == [first | {"index": 1}, first | {"index": 2}]
    assert (got["usage"]["prompt_tokens"], got["usage"]["completion_tokens"]) == (3, 6)
    assert [request.n for request in backend.requests] == [1]


def test_a_stream_has_every_answer_with_its_index_and_end(client: FlaskClient) -> None:
    got = chunks(client, CHATS, n=2, stream_options={"include_usage": True}, **GREEDY)
    *rest, last = got
    by_index: dict[int, list[Any]] = {0: [], 1: []}
    for chunk in rest:
        (choice,) = chunk["choices"]
        by_index[choice["index"]].append((choice["delta"], choice["finish_reason"]))
    assert by_index[0] == by_index[1]
    assert [delta.get("role") for delta, _ in by_index[0]] == ["assistant", None, None, None]
    assert "".join(delta.get("content", "") for delta, _ in by_index[0]) == "Hello world"
    assert [reason for _, reason in by_index[0]] == [None, None, None, "stop"]
    assert last["usage"] == {"prompt_tokens": 3, "total_tokens": 7, "completion_tokens": 4} | {
        "prompt_tokens_details": {"cached_tokens": 0}
    }


def test_the_usage_so_far_is_that_of_each_answer(client: FlaskClient) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    *rest, _ = chunks(client, CHATS, n=2, stream_options=options, **GREEDY)
    assert [chunk["usage"]["completion_tokens"] for chunk in rest] == [0, 0, 1, 1, 2, 2, 2, 2]


@pytest.mark.parametrize("fields", [{"n": 2}, {"n": 1, "best_of": 2}, {"n": 2, "best_of": 3}])
def test_each_prompt_of_a_completion_has_its_answers(client: FlaskClient, fields: dict[str, int]) -> None:
    got = get_response(client, COMPLETIONS, prompt=["a", "b"], **fields, **GREEDY)
    assert [choice["index"] for choice in got["choices"]] == list(range(2 * fields["n"]))
    assert {choice["text"] for choice in got["choices"]} == {"Hello world"}
    assert got["usage"]["completion_tokens"] == 2 * 2 * fields.get("best_of", fields["n"])


def test_a_streamed_completion_has_the_answers_of_each_prompt(client: FlaskClient) -> None:
    texts = dict.fromkeys(range(4), "")
    for chunk in chunks(client, COMPLETIONS, prompt=["a", "b"], n=2, **GREEDY):
        (choice,) = chunk["choices"]
        texts[choice["index"]] += choice["text"]
    assert texts == dict.fromkeys(range(4), "Hello world")


def test_every_answer_has_the_calls(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = CALL
    first, second = get_response(client, CHATS, n=2, tools=[WEATHER], **GREEDY)["choices"]
    assert len(first["message"]["tool_calls"]) == 2
    assert second["message"] == first["message"]


@pytest.mark.parametrize("field", ["n", "best_of"])
def test_answers_are_greedy_by_the_default_temperature_too(backend: FakeBackend, field: str) -> None:
    client = create_app(make_models(backend), ServerSettings(default_temperature=0.0)).test_client()
    get_response(client, COMPLETIONS, **{field: 2})
    assert backend.requests[-1].n == 1
    backend.script = [step for index in range(2) for step in say("a", index=index)]
    get_response(client, COMPLETIONS, temperature=0.5, **{field: 2})
    assert backend.requests[-1].n == 2
