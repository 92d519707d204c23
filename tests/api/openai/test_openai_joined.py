"""Whatever a model says, its stream joined is its whole answer."""

import random
from collections import defaultdict
from typing import Any

import pytest
from flask import Flask

from api import create_app
from api.settings import AppSettings
from inference.types import Alternative, CallDelta, Event, Finished, Started, Token
from tests.api.openai.asking import CHATS, COMPLETIONS, RESPONSES, WEATHER, chunks, events, whole
from tests.fake_backend import FakeBackend

TEXTS = ("", " a", "é", "\n", '{"x": ', "😀", "</tool>")
ANSWERS = 3


def answer(draws: random.Random, index: int, calls: bool) -> list[Event]:
    """A start, tokens with calls among them (whole, or in pieces), and an end."""
    told: list[Event] = [Started(index, 5, 2, ids=(1, 2, 3, 4, 5))]
    count = draws.randrange(6)
    for number in range(count):
        text = draws.choice(TEXTS)
        top = tuple(Alternative(id, draws.choice(TEXTS), -draws.random()) for id in range(2))
        told.append(Token(index, draws.randrange(99), text, -draws.random(), top, spelling=text))
        if calls and draws.random() < 0.5:
            told += call(draws, index, number)
    reason = draws.choice(("stop", "length", "deadline"))
    return [*told, Finished(index, reason, draws.choice(TEXTS), draws.choice((None, "x", 7)), count)]


def call(draws: random.Random, index: int, number: int) -> list[Event]:
    text = '{"city": "Paris", "days": [1, 2]}'
    cut = draws.randrange(len(text))
    pieces = [text] if draws.random() < 0.3 else ["", text[:cut], text[cut:]]
    last = len(pieces) - 1
    return [
        CallDelta(index, number, f"call_{number}", "get_weather", piece, done=place == last)
        for place, piece in enumerate(pieces)
    ]


def interleaved(draws: random.Random, answers: list[list[Event]]) -> list[Event]:
    """One after the other in any order that keeps each answer's own."""
    left, told = [list(each) for each in answers], []
    while any(left):
        told.append(draws.choice([each for each in left if each]).pop(0))
    return told


def app_of(draws: random.Random, answers: int, calls: bool) -> Flask:
    told = interleaved(draws, [answer(draws, index, calls) for index in range(answers)])
    return create_app(FakeBackend(list(told), pace_s=0), AppSettings())


def joined_chat(got: list[Any]) -> dict[int, Any]:
    """What a client makes of the chunks: each answer's text, calls, logprobs and end."""
    said: dict[int, Any] = defaultdict(lambda: {"text": "", "calls": {}, "tokens": [], "end": None})
    for chunk in got:
        for choice in chunk["choices"]:
            mine = said[choice["index"]]
            mine["text"] += choice["delta"]["content"] or ""
            mine["tokens"] += (choice["logprobs"] or {"content": []})["content"]
            mine["end"] = (choice["finish_reason"], choice.get("stop_reason"))
            for delta in choice["delta"]["tool_calls"] or ():
                known = mine["calls"].setdefault(delta["index"], {**delta["function"], "id": delta.get("id")})
                if known["id"] != delta.get("id"):
                    known["arguments"] += delta["function"]["arguments"]
    return said


@pytest.mark.parametrize("seed", range(25))
def test_a_chats_stream_joined_is_the_whole_answer(seed: int) -> None:
    client = app_of(random.Random(seed), ANSWERS, calls=seed % 2 == 0).test_client()
    fields: dict[str, Any] = {"n": ANSWERS, "logprobs": True, "top_logprobs": 2, "tools": [WEATHER]}
    joined = joined_chat(chunks(client, CHATS, **fields))
    for choice in whole(client, CHATS, **fields)["choices"]:
        mine, message = joined[choice["index"]], choice["message"]
        assert mine["text"] == (message["content"] or "")
        assert mine["tokens"] == choice["logprobs"]["content"]
        assert mine["end"] == (choice["finish_reason"], choice["stop_reason"])
        told = [(call["id"], *call["function"].values()) for call in message["tool_calls"]]
        assert [(call["id"], call["name"], call["arguments"]) for call in mine["calls"].values()] == told


@pytest.mark.parametrize("seed", range(25))
def test_a_completions_stream_joined_is_the_whole_answer(seed: int) -> None:
    client = app_of(random.Random(seed), ANSWERS, calls=False).test_client()
    fields: dict[str, Any] = {"n": ANSWERS, "logprobs": 1, "return_token_ids": True, "echo": seed % 2 == 0}
    said: dict[int, Any] = defaultdict(lambda: defaultdict(list))
    for chunk in chunks(client, COMPLETIONS, **fields):
        (choice,) = chunk["choices"]
        mine = said[choice["index"]]
        mine["text"].append(choice["text"])
        mine["ids"] += choice.get("token_ids", [])
        mine["end"] = [choice["finish_reason"], choice["stop_reason"]]
        for name, values in (choice["logprobs"] or {}).items():
            mine[name] += values
    for choice in whole(client, COMPLETIONS, **fields)["choices"]:
        mine = said[choice["index"]]
        assert "".join(mine["text"]) == choice["text"]
        assert mine["ids"] == choice["token_ids"]
        assert mine["end"] == [choice["finish_reason"], choice["stop_reason"]]
        for name, values in (choice["logprobs"] or {}).items():
            assert mine[name] == values


@pytest.mark.parametrize("seed", range(25))
def test_a_responses_events_joined_are_the_whole_response(seed: int) -> None:
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
    plain = whole(client, RESPONSES, include=["message.output_text.logprobs"])
    assert nameless(plain["output"]) == nameless(response["output"])
    assert (plain["status"], plain["usage"]) == (response["status"], response["usage"])


def nameless(items: list[Any]) -> list[Any]:
    return [{name: value for name, value in item.items() if name != "id"} for item in items]
