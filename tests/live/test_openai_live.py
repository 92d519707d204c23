"""The OpenAI dialect on the real engine."""

import json
import math
import time
from collections.abc import Callable
from typing import Any

import pytest
import requests

from inference.remote.answer_settings import SETTING_OF_KEY, answer_settings
from tests.servers.serving import ServerProcess

pytestmark = pytest.mark.slow

QUESTION = "What is the capital of France?"
USER = {"role": "user", "content": QUESTION}
WEATHER_MESSAGE = {"role": "user", "content": "What's the weather in Paris?"}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}


def complete(server: ServerProcess, **fields: Any) -> Any:
    response = server.post("/v1/completions", {"prompt": QUESTION, "temperature": 0, **fields})
    assert response.ok, response.text
    return response.json()


def chat(server: ServerProcess, **fields: Any) -> Any:
    response = server.post("/v1/chat/completions", {"messages": [USER], "temperature": 0, **fields})
    assert response.ok, response.text
    return response.json()


def chunks(server: ServerProcess, path: str, **fields: Any) -> list[Any]:
    response = server.post(path, {"temperature": 0, **fields, "stream": True})
    *events, done, _ = response.content.decode().split("\n\n")
    assert done == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events]


def test_a_seed_gives_the_same_answers_streamed_and_whole(server: ServerProcess) -> None:
    fields = {"messages": [USER], "temperature": 1.5, "seed": 3, "n": 3, "max_tokens": 20}
    unstreamed = [choice["message"]["content"] for choice in chat(server, **fields)["choices"]]
    texts = ["", "", ""]
    for chunk in chunks(server, "/v1/chat/completions", **fields):
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["delta"].get("content", "")
    assert texts == unstreamed
    assert len(set(unstreamed)) > 1, "at this temperature seeds should differ"


def test_an_echo_without_tokens_scores_the_prompt_like_an_answer(server: ServerProcess) -> None:
    completion = complete(server, max_tokens=8, logprobs=0)["choices"][0]
    text = QUESTION + completion["text"]
    scored = complete(server, prompt=text, echo=True, max_tokens=0, logprobs=0)["choices"][0]
    assert (scored["text"], scored["finish_reason"]) == (text, "length")
    assert scored["logprobs"]["token_logprobs"][0] is None
    tokens = completion["logprobs"]["tokens"]
    assert scored["logprobs"]["tokens"][-len(tokens) :] == tokens
    assert scored["logprobs"]["token_logprobs"][-len(tokens) :] == pytest.approx(
        completion["logprobs"]["token_logprobs"], abs=1e-3
    )


def test_prompt_ids_are_the_prompts_text(server: ServerProcess) -> None:
    ids = server.post("/tokenize", {"prompt": QUESTION}).json()["tokens"]
    assert server.post("/detokenize", {"tokens": ids[1:]}).json() == {"prompt": QUESTION}
    first, second = complete(server, prompt=[QUESTION, ids], max_tokens=12)["choices"]
    assert first["text"] == second["text"]


def test_the_best_answer_is_the_most_likely_of_its_seeds(server: ServerProcess) -> None:
    fields = {"temperature": 2.0, "max_tokens": 6, "seed": 11, "logprobs": 0}
    every = complete(server, n=4, **fields)["choices"]
    means = [sum(scores) / len(scores) for scores in (c["logprobs"]["token_logprobs"] for c in every)]
    (best,) = complete(server, n=1, best_of=4, **fields)["choices"]
    assert best["text"] == every[means.index(max(means))]["text"]


def test_a_call_streams_as_it_is_written(server: ServerProcess) -> None:
    fields = {"messages": [WEATHER_MESSAGE], "tools": [WEATHER]}
    (unstreamed,) = chat(server, **fields)["choices"][0]["message"]["tool_calls"]
    got = chunks(server, "/v1/chat/completions", **fields)
    deltas = [call for c in got for call in c["choices"][0]["delta"].get("tool_calls", ())]
    assert deltas[0]["function"]["name"] == "get_weather"
    assert len(deltas) > 2
    assert "".join(delta["function"]["arguments"] for delta in deltas) == unstreamed["function"]["arguments"]
    assert got[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_alternatives_are_the_most_likely_and_sum_to_at_most_one(server: ServerProcess) -> None:
    (choice,) = chat(server, logprobs=True, top_logprobs=5)["choices"]
    assert choice["logprobs"]["content"]
    for entry in choice["logprobs"]["content"]:
        scores = [other["logprob"] for other in entry["top_logprobs"]]
        assert len(scores) == 5
        assert scores == sorted(scores, reverse=True)
        assert entry["logprob"] == scores[0]
        assert sum(map(math.exp, scores)) <= 1.0001


def test_constraints_of_all_spellings_apply(server: ServerProcess) -> None:
    assert chat(server, guided_choice=["London", "Paris"])["choices"][0]["message"]["content"] == "Paris"
    pattern = {"type": "regex", "value": "[0-9]{3}"}
    assert chat(server, response_format=pattern)["choices"][0]["message"]["content"].isdecimal()
    schema = {"type": "json_object", "value": PARAMETERS}
    assert "city" in json.loads(chat(server, response_format=schema)["choices"][0]["message"]["content"])


def test_too_many_tokens_are_refused_with_their_number(server: ServerProcess) -> None:
    refused = server.post("/v1/completions", {"prompt": QUESTION, "max_tokens": 3000})
    assert refused.status_code == 400
    assert refused.json()["error"]["message"].endswith("(3000 > 2048 - 10).")
    long = server.post("/v1/completions", {"prompt": "word " * 3000})
    assert "maximum context length is 2048 tokens" in long.json()["error"]["message"]
    truncated = complete(server, prompt="word " * 3000, truncate_prompt_tokens=-1, max_tokens=2)
    assert truncated["usage"]["prompt_tokens"] == 2046


def test_a_partial_message_is_continued(server: ServerProcess) -> None:
    partial_message = {"role": "assistant", "content": "The capital of"}
    reply = chat(server, messages=[USER, partial_message], continue_final_message=True, echo=True)
    assert reply["choices"][0]["message"]["content"] == "The capital of France is Paris."


def test_a_stream_has_a_chunk_for_each_token_and_the_last_has_the_end(server: ServerProcess) -> None:
    fields = {"prompt": QUESTION, "max_tokens": 6, "ignore_eos": True, "temperature": 1, "n": 2, "seed": 4}
    choices = [chunk["choices"][0] for chunk in chunks(server, "/v1/completions", **fields)]
    for index in range(2):
        mine = [choice for choice in choices if choice["index"] == index]
        assert [choice["finish_reason"] for choice in mine] == [None] * 5 + ["length"]
        assert mine[-1]["text"]


def test_only_allowed_tokens_are_generated_and_no_stop_token(server: ServerProcess) -> None:
    reply = complete(server, allowed_token_ids=[500, 501], max_tokens=5, return_token_ids=True)
    assert set(reply["choices"][0]["token_ids"]) <= {500, 501}
    assert reply["choices"][0]["finish_reason"] == "length"


def test_a_client_that_disconnects_frees_its_place(server: ServerProcess) -> None:
    """Enough tokens that generation continues long after the first one, however busy the machine is."""
    fields = {"prompt": [QUESTION] * 4, "max_tokens": 2000, "n": 32, "ignore_eos": True, "stream": True}
    with requests.post(f"{server.url}/v1/completions", json=fields, stream=True, timeout=60) as response:
        assert response.ok
        wait_for_load(server, lambda load: load >= 32)
    wait_for_load(server, lambda load: load == 0)


def wait_for_load(server: ServerProcess, is_expected: Callable[[int], bool]) -> None:
    end = time.monotonic() + 120
    while not is_expected(requests.get(f"{server.url}/load", timeout=60).json()["server_load"]):
        assert time.monotonic() < end, "the load stays"
        time.sleep(0.05)


def test_the_list_of_models_has_the_settings_that_change_answers(server: ServerProcess) -> None:
    (card, *_) = requests.get(f"{server.url}/v1/models", timeout=60).json()["data"]
    settings = answer_settings(card["metadata"])
    assert settings.keys() == SETTING_OF_KEY.keys()
    assert (settings["quantize"], settings["kv_dtype"]) == ("none", "auto")
