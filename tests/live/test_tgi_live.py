"""TGI's dialect on the real server, with the demo model: what only a real engine can show."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from tests.serving import Server

pytestmark = pytest.mark.slow

QUESTION = "What is the capital of France?"
TOLD = " The capital of France is Paris."
STORY = "Tell me a story about"


def generated(server: Server, inputs: str = QUESTION, **parameters: Any) -> dict[str, Any]:
    body = {"inputs": inputs, "parameters": {"details": True, **parameters}}
    response = server.post("/generate", body)
    assert response.status_code == 200, response.text
    return response.json()


def streamed(server: Server, inputs: str = QUESTION, **parameters: Any) -> list[dict[str, Any]]:
    body = {"inputs": inputs, "parameters": {"details": True, **parameters}}
    lines = server.post("/generate_stream", body).text.split("\n\n")[:-1]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def ids(told: dict[str, Any]) -> list[int]:
    return [token["id"] for token in told["details"]["tokens"]]


def test_the_models_own_end_is_a_token_and_no_text(server: Server) -> None:
    told = generated(server)
    assert (told["generated_text"], told["details"]["finish_reason"]) == (TOLD, "eos_token")
    last = told["details"]["tokens"][-1]
    assert (last["special"], last["text"][:2]) == (True, "<|")


def test_a_drawn_seed_can_be_replayed_alone_and_under_load(server: Server) -> None:
    wild = {"do_sample": True, "temperature": 1.5, "max_new_tokens": 16}
    first = generated(server, STORY, **wild)
    seed = first["details"]["seed"]
    with ThreadPoolExecutor(6) as others:
        again = list(others.map(lambda k: generated(server, STORY, seed=seed + k, **wild), range(6)))
    assert ids(again[0]) == ids(first)
    assert len({told["generated_text"] for told in again}) > 1
    assert streamed(server, STORY, seed=seed, **wild)[-1]["generated_text"] == first["generated_text"]


def test_a_stream_tells_the_tokens_of_a_whole_answer(server: Server) -> None:
    events = streamed(server, top_n_tokens=2)
    assert [event["token"] for event in events] == generated(server)["details"]["tokens"]
    assert [event["index"] for event in events] == list(range(1, len(events) + 1))
    assert all(event["generated_text"] is None for event in events[:-1])
    assert events[-1]["details"] == {
        "finish_reason": "eos_token",
        "generated_tokens": len(events),
        "seed": None,
        "input_length": 10,
    }


def test_the_best_of_two_has_the_higher_mean(server: Server) -> None:
    told = generated(server, STORY, best_of=2, do_sample=True, temperature=1.5, max_new_tokens=8)
    (other,) = told["details"]["best_of_sequences"]
    best, worse = (
        sum(token["logprob"] for token in each["tokens"]) / len(each["tokens"])
        for each in (told["details"], other)
    )
    assert best >= worse
    replayed = generated(server, STORY, seed=other["seed"], do_sample=True, temperature=1.5, max_new_tokens=8)
    assert replayed["generated_text"] == other["generated_text"]


def test_logprobs_are_behind_the_warpers(server: Server) -> None:
    """Where top_k leaves one token it is certain."""
    certain = generated(server, STORY, top_k=1, do_sample=True, max_new_tokens=4, top_n_tokens=3)["details"]
    assert [token["logprob"] for token in certain["tokens"]] == [0.0] * 4
    assert [len(tokens) for tokens in certain["top_tokens"]] == [1] * 4


def test_the_prompts_tokens_have_logprobs(server: Server) -> None:
    prefill = generated(server, decoder_input_details=True, max_new_tokens=1)["details"]["prefill"]
    assert prefill[0]["logprob"] is None
    assert all(token["logprob"] < 0 for token in prefill[1:])
    kept = generated(server, decoder_input_details=True, max_new_tokens=1, truncate=3)["details"]["prefill"]
    assert [token["id"] for token in kept] == [token["id"] for token in prefill[-3:]]


def test_a_stop_string_counts_where_a_token_ends(server: Server) -> None:
    ended = generated(server, stop=["al of"])
    within = generated(server, stop=["capita"])
    assert (ended["generated_text"], ended["details"]["finish_reason"]) == (
        " The capital of",
        "stop_sequence",
    )
    assert within["details"]["finish_reason"] == "eos_token"


def test_the_models_end_goes_before_a_stop_string_and_the_limit_before_both(server: Server) -> None:
    end = generated(server)["details"]["tokens"][-1]["text"]
    assert generated(server, stop=[end])["details"]["finish_reason"] == "eos_token"
    tokens = generated(server)["details"]["generated_tokens"]
    assert generated(server, stop=[end], max_new_tokens=tokens)["details"]["finish_reason"] == "length"


def test_a_watermark_shifts_what_is_chosen(server: Server) -> None:
    plain = generated(server, STORY, max_new_tokens=24)["details"]["tokens"]
    marked = generated(server, STORY, max_new_tokens=24, watermark=True)["details"]["tokens"]
    assert plain != marked
    assert marked == generated(server, STORY, max_new_tokens=24, watermark=True)["details"]["tokens"]


def test_a_grammar_shapes_the_text(server: Server) -> None:
    number = generated(server, grammar={"type": "regex", "value": "[0-9]{3}"})
    schema = {"properties": {"capital": {"type": "string"}}, "required": ["capital"]}
    shaped = generated(server, grammar={"type": "json", "value": schema}, max_new_tokens=40)
    assert number["generated_text"].isdigit() and len(number["generated_text"]) == 3
    assert json.loads(shaped["generated_text"]).keys() == {"capital"}


def test_a_grammar_that_cannot_be_used_is_refused(server: Server) -> None:
    wrong = [
        ({"type": "regex", "value": "("}, "grammar is not valid: "),
        (
            {"type": "json", "value": {"properties": {"a": {"type": "no"}}}},
            "cannot compile regex from schema: ",
        ),
    ]
    for grammar, words in wrong:
        response = server.post("/generate", {"inputs": "Hi", "parameters": {"grammar": grammar}})
        assert (response.status_code, response.json()["error_type"]) == (422, "validation")
        assert response.json()["error"].startswith(f"Input validation error: {words}")


def test_what_does_not_fit_is_refused_with_its_figures(server: Server) -> None:
    response = server.post("/generate", {"inputs": "Hi", "parameters": {"max_new_tokens": 2048}})
    assert response.json()["error"].endswith(
        "must be <= 2048. Given: 2 `inputs` tokens and 2048 `max_new_tokens`"
    )
    tokens = len(server.post("/tokenize", {"inputs": "the " * 3000}).json())
    long = server.post("/generate", {"inputs": "the " * 3000})
    assert long.json()["error"].endswith(f"Given: {tokens} `inputs` tokens and 0 `max_new_tokens`")


def test_a_texts_tokens_have_their_places(server: Server) -> None:
    pieces = server.post("/tokenize", {"inputs": QUESTION}).json()
    assert "".join(QUESTION[piece["start"] : piece["stop"]] for piece in pieces) == QUESTION
    told = server.post("/chat_tokenize", {"messages": [{"role": "user", "content": QUESTION}]}).json()
    assert QUESTION in told["templated_text"]
    assert "".join(piece["text"] for piece in told["tokenize_response"]) == told["templated_text"]


def test_headers_tell_what_an_answer_cost(server: Server) -> None:
    greedy = {"do_sample": False}  # without any parameters TGI draws
    headers = server.post("/", {"inputs": QUESTION, "parameters": greedy}).headers
    assert int(headers["x-generated-tokens"]) == generated(server)["details"]["generated_tokens"]
    assert int(headers["x-total-time"]) >= int(headers["x-inference-time"]) >= 0
    assert headers["x-compute-characters"] == str(len(QUESTION))
    info = requests.get(f"{server.url}/info", timeout=10).json()
    assert (info["max_total_tokens"], info["model_device_type"]) == (2048, "cpu")
