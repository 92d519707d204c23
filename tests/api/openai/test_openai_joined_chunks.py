"""The joined chunks of a stream equal the whole answer, for random answers."""

import random
from collections import defaultdict
from typing import Any

import pytest
from flask import Flask

from api import create_app
from inference.events import CallDelta, Event, Finished, Started, Token, TopLogprob
from settings.groups import ServerSettings
from tests.api.openai.app_requests import CHATS, COMPLETIONS, RESPONSES, WEATHER, chunks, events, get_response
from tests.fakes.fake_backend import FakeBackend, make_models

TEXTS = ("", " a", "é", "\n", '{"x": ', "😀", "</tool>")
NUM_ANSWERS = 3


def answer_events(draws: random.Random, index: int, calls: bool) -> list[Event]:
    """A start, tokens with calls among them (whole or in fragments), and an end."""
    script: list[Event] = [Started(index, 5, 2, prompt_token_ids=(1, 2, 3, 4, 5))]
    count = draws.randrange(6)
    for number in range(count):
        text = draws.choice(TEXTS)
        top = tuple(TopLogprob(id, draws.choice(TEXTS), -draws.random()) for id in range(2))
        script.append(Token(index, draws.randrange(99), text, -draws.random(), top, spelling=text))
        if calls and draws.random() < 0.5:
            script += call_events(draws, index, number)
    reason = draws.choice(("stop", "length", "deadline"))
    return [*script, Finished(index, reason, draws.choice(TEXTS), draws.choice((None, "x", 7)), count)]


def call_events(draws: random.Random, index: int, number: int) -> list[Event]:
    text = '{"city": "Paris", "days": [1, 2]}'
    middle = draws.randrange(len(text))
    fragments = [text] if draws.random() < 0.3 else ["", text[:middle], text[middle:]]
    last = len(fragments) - 1
    return [
        CallDelta(index, number, f"call_{number}", "get_weather", fragment, done=place == last)
        for place, fragment in enumerate(fragments)
    ]


def interleave(draws: random.Random, answer_lists: list[list[Event]]) -> list[Event]:
    """The events of all answers in a random order that keeps each answer's own."""
    remaining, merged = [list(each) for each in answer_lists], []
    while any(remaining):
        merged.append(draws.choice([each for each in remaining if each]).pop(0))
    return merged


def app_of(draws: random.Random, count: int, calls: bool) -> Flask:
    script = interleave(draws, [answer_events(draws, index, calls) for index in range(count)])
    return create_app(make_models(FakeBackend(list(script), pace_s=0)), ServerSettings())


def join_chat(got: list[Any]) -> dict[int, Any]:
    """What a client assembles from the chunks: each answer's text, calls, logprobs and end."""
    by_index: dict[int, Any] = defaultdict(lambda: {"text": "", "calls": {}, "tokens": [], "end": None})
    for chunk in got:
        for choice in chunk["choices"]:
            mine = by_index[choice["index"]]
            mine["text"] += choice["delta"].get("content", "")
            mine["tokens"] += (choice["logprobs"] or {"content": []})["content"]
            mine["end"] = (choice["finish_reason"], choice.get("stop_reason"))
            for delta in choice["delta"].get("tool_calls", ()):
                known = mine["calls"].setdefault(delta["index"], {**delta["function"], "id": delta.get("id")})
                if known["id"] != delta.get("id"):
                    known["arguments"] += delta["function"]["arguments"]
    return by_index


@pytest.mark.parametrize("seed", range(25))
def test_a_chats_joined_stream_equals_the_whole_answer(seed: int) -> None:
    client = app_of(random.Random(seed), NUM_ANSWERS, calls=seed % 2 == 0).test_client()
    fields: dict[str, Any] = {"n": NUM_ANSWERS, "logprobs": True, "top_logprobs": 2, "tools": [WEATHER]}
    by_index = join_chat(chunks(client, CHATS, **fields))
    choices = get_response(client, CHATS, **fields)["choices"]
    assert len(choices) == len(by_index) == NUM_ANSWERS
    for choice in choices:
        mine, message = by_index[choice["index"]], choice["message"]
        assert mine["text"] == (message["content"] or "")
        assert mine["tokens"] == choice["logprobs"]["content"]
        assert mine["end"] == (choice["finish_reason"], choice["stop_reason"])
        expected_calls = [(call["id"], *call["function"].values()) for call in message["tool_calls"]]
        assert [
            (call["id"], call["name"], call["arguments"]) for call in mine["calls"].values()
        ] == expected_calls


@pytest.mark.parametrize("seed", range(25))
def test_a_completions_joined_stream_equals_the_whole_answer(seed: int) -> None:
    client = app_of(random.Random(seed), NUM_ANSWERS, calls=False).test_client()
    fields: dict[str, Any] = {
        "n": NUM_ANSWERS,
        "logprobs": 1,
        "return_token_ids": True,
        "echo": seed % 2 == 0,
    }
    by_index: dict[int, Any] = defaultdict(lambda: defaultdict(list))
    for chunk in chunks(client, COMPLETIONS, **fields):
        (choice,) = chunk["choices"]
        mine = by_index[choice["index"]]
        mine["text"].append(choice["text"])
        mine["ids"] += choice.get("token_ids", [])
        mine["end"] = [choice["finish_reason"], choice["stop_reason"]]
        for name, values in (choice["logprobs"] or {}).items():
            mine[name] += values
    choices = get_response(client, COMPLETIONS, **fields)["choices"]
    assert len(choices) == len(by_index) == NUM_ANSWERS
    for choice in choices:
        mine = by_index[choice["index"]]
        assert "".join(mine["text"]) == choice["text"]
        assert mine["ids"] == choice["token_ids"]
        assert mine["end"] == [choice["finish_reason"], choice["stop_reason"]]
        for name, values in (choice["logprobs"] or {}).items():
            assert mine[name] == values


@pytest.mark.parametrize("seed", range(25))
def test_a_responses_joined_events_equal_the_whole_response(seed: int) -> None:
    client = app_of(random.Random(seed), 1, calls=seed % 2 == 0).test_client()
    got = events(client, include=["message.output_text.logprobs"])
    items: dict[str, str] = defaultdict(str)
    for event in got:
        if event["type"].endswith(".delta"):
            items[event["item_id"]] += event["delta"]
    last = got[-1]
    response = last["response"]
    assert last["type"] == f"response.{response['status']}"
    assert [event["sequence_number"] for event in got] == list(range(len(got)))
    texts = [
        item.get("arguments") or "".join(p["text"] for p in item.get("content", []))
        for item in response["output"]
    ]
    assert texts == [items[item["id"]] for item in response["output"]]
    plain = get_response(client, RESPONSES, include=["message.output_text.logprobs"])
    assert without_ids(plain["output"]) == without_ids(response["output"])
    assert (plain["status"], plain["usage"]) == (response["status"], response["usage"])


def without_ids(items: list[Any]) -> list[Any]:
    return [{name: value for name, value in item.items() if name != "id"} for item in items]
