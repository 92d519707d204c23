"""The client of the predecessor project: requests, and lines of JSON."""

import json
from collections.abc import Iterator
from typing import Any

import requests

ANSWER_TEXT = "The capital of France is Paris."
QUESTION = "What's the capital of France?"


def ask(url: str, path: str, **fields: Any) -> requests.Response:
    body = {"model": "fake/model", "sampling_params": {"temperature": 1, "max_tokens": 100}} | fields
    response = requests.post(url + path, json=body, stream=fields.get("stream", False), timeout=60)
    response.raise_for_status()
    return response


def lines(response: requests.Response) -> Iterator[Any]:
    for line in response.iter_lines():
        yield json.loads(line)


def test_its_whole_answers_are_read(scripted: str) -> None:
    chat = ask(scripted, "/inference/chat_completion", messages=[{"role": "user", "content": QUESTION}])
    completion = ask(scripted, "/inference/completion", content=QUESTION)
    assert chat.json()["completion_message"]["content"] == ANSWER_TEXT
    assert completion.json()["completion_message"]["content"] == ANSWER_TEXT


def test_its_streams_are_lines_whose_deltas_are_text(scripted: str) -> None:
    messages = [{"role": "user", "content": QUESTION}]
    chat = lines(ask(scripted, "/inference/chat_completion", messages=messages, stream=True))
    completion = lines(ask(scripted, "/inference/completion", content=QUESTION, stream=True))
    assert "".join(chunk["event"]["delta"] for chunk in chat) == ANSWER_TEXT
    assert "".join(chunk["delta"] for chunk in completion) == ANSWER_TEXT
