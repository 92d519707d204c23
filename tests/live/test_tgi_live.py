"""The TGI dialect on the real server with the demo model: behaviour that needs a real engine."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from tests.servers.serving import ServerProcess

pytestmark = pytest.mark.slow

QUESTION = "What is the capital of France?"
ANSWER_TEXT = " The capital of France is Paris."
STORY = "Tell me a story about"


def generate(server: ServerProcess, inputs: str = QUESTION, **parameters: Any) -> dict[str, Any]:
    body = {"inputs": inputs, "parameters": {"details": True, **parameters}}
    response = server.post("/generate", body)
    assert response.status_code == 200, response.text
    return response.json()


def generate_stream(server: ServerProcess, inputs: str = QUESTION, **parameters: Any) -> list[dict[str, Any]]:
    body = {"inputs": inputs, "parameters": {"details": True, **parameters}}
    lines = server.post("/generate_stream", body).content.decode().split("\n\n")[:-1]  # SSE is UTF-8
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def ids(reply: dict[str, Any]) -> list[int]:
    return [token["id"] for token in reply["details"]["tokens"]]


def test_the_end_token_is_a_token_without_text(server: ServerProcess) -> None:
    reply = generate(server)
    assert (reply["generated_text"], reply["details"]["finish_reason"]) == (ANSWER_TEXT, "eos_token")
    last = reply["details"]["tokens"][-1]
    assert (last["special"], last["text"][:2]) == (True, "<|")


def test_a_random_seed_can_be_replayed_alone_and_under_load(server: ServerProcess) -> None:
    wild = {"do_sample": True, "temperature": 1.5, "max_new_tokens": 16}
    first = generate(server, STORY, **wild)
    seed = first["details"]["seed"]
    with ThreadPoolExecutor(6) as others:
        again = list(others.map(lambda k: generate(server, STORY, seed=seed + k, **wild), range(6)))
    assert ids(again[0]) == ids(first)
    assert len({reply["generated_text"] for reply in again}) > 1
    assert generate_stream(server, STORY, seed=seed, **wild)[-1]["generated_text"] == first["generated_text"]


def test_a_stream_sends_the_tokens_of_a_whole_answer(server: ServerProcess) -> None:
    events = generate_stream(server, top_n_tokens=2)
    assert [event["token"] for event in events] == generate(server)["details"]["tokens"]
    assert [event["index"] for event in events] == list(range(1, len(events) + 1))
    assert all(event["generated_text"] is None for event in events[:-1])
    assert events[-1]["details"] == {
        "finish_reason": "eos_token",
        "generated_tokens": len(events),
        "seed": None,
        "input_length": 10,
    }


def test_the_best_of_two_has_the_higher_mean_logprob(server: ServerProcess) -> None:
    reply = generate(server, STORY, best_of=2, do_sample=True, temperature=1.5, max_new_tokens=8)
    (other,) = reply["details"]["best_of_sequences"]
    best, worse = (
        sum(token["logprob"] for token in each["tokens"]) / len(each["tokens"])
        for each in (reply["details"], other)
    )
    assert best >= worse
    replayed = generate(server, STORY, seed=other["seed"], do_sample=True, temperature=1.5, max_new_tokens=8)
    assert replayed["generated_text"] == other["generated_text"]


def test_logprobs_come_after_the_warpers(server: ServerProcess) -> None:
    """If top_k leaves one token, its probability is 1."""
    certain = generate(server, STORY, top_k=1, do_sample=True, max_new_tokens=4, top_n_tokens=3)["details"]
    assert [token["logprob"] for token in certain["tokens"]] == [0.0] * 4
    assert [len(tokens) for tokens in certain["top_tokens"]] == [1] * 4


def test_the_prompts_tokens_have_logprobs(server: ServerProcess) -> None:
    prefill = generate(server, decoder_input_details=True, max_new_tokens=1)["details"]["prefill"]
    assert prefill[0]["logprob"] is None
    assert all(token["logprob"] < 0 for token in prefill[1:])
    truncated = generate(server, decoder_input_details=True, max_new_tokens=1, truncate=3)["details"][
        "prefill"
    ]
    assert [token["id"] for token in truncated] == [token["id"] for token in prefill[-3:]]


def test_a_stop_string_counts_only_where_a_token_ends(server: ServerProcess) -> None:
    reply = generate(server, stop=["al of"])
    within = generate(server, stop=["capita"])
    assert (reply["generated_text"], reply["details"]["finish_reason"]) == (
        " The capital of",
        "stop_sequence",
    )
    assert within["details"]["finish_reason"] == "eos_token"


def test_eos_takes_precedence_over_a_stop_string_and_length_over_both(server: ServerProcess) -> None:
    end = generate(server)["details"]["tokens"][-1]["text"]
    assert generate(server, stop=[end])["details"]["finish_reason"] == "eos_token"
    tokens = generate(server)["details"]["generated_tokens"]
    assert generate(server, stop=[end], max_new_tokens=tokens)["details"]["finish_reason"] == "length"


def test_a_watermark_changes_the_generated_tokens(server: ServerProcess) -> None:
    plain = generate(server, STORY, max_new_tokens=24)["details"]["tokens"]
    marked = generate(server, STORY, max_new_tokens=24, watermark=True)["details"]["tokens"]
    assert plain != marked
    assert marked == generate(server, STORY, max_new_tokens=24, watermark=True)["details"]["tokens"]


def test_a_grammar_constrains_the_text(server: ServerProcess) -> None:
    number = generate(server, grammar={"type": "regex", "value": "[0-9]{3}"})
    schema = {"properties": {"capital": {"type": "string"}}, "required": ["capital"]}
    shaped = generate(server, grammar={"type": "json", "value": schema}, max_new_tokens=40)
    assert number["generated_text"].isdigit() and len(number["generated_text"]) == 3
    assert json.loads(shaped["generated_text"]).keys() == {"capital"}


def test_a_grammar_that_cannot_be_used_is_refused(server: ServerProcess) -> None:
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


def test_a_request_that_does_not_fit_is_refused_with_its_figures(server: ServerProcess) -> None:
    response = server.post("/generate", {"inputs": "Hi", "parameters": {"max_new_tokens": 2048}})
    assert response.json()["error"].endswith(
        "must be <= 2048. Given: 2 `inputs` tokens and 2048 `max_new_tokens`"
    )
    tokens = len(server.post("/tokenize", {"inputs": "the " * 3000}).json())
    long = server.post("/generate", {"inputs": "the " * 3000})
    assert long.json()["error"].endswith(f"Given: {tokens} `inputs` tokens and 0 `max_new_tokens`")


def test_tokens_have_their_offsets(server: ServerProcess) -> None:
    tokens = server.post("/tokenize", {"inputs": QUESTION}).json()
    assert "".join(QUESTION[token["start"] : token["stop"]] for token in tokens) == QUESTION
    reply = server.post("/chat_tokenize", {"messages": [{"role": "user", "content": QUESTION}]}).json()
    assert QUESTION in reply["templated_text"]
    assert "".join(token["text"] for token in reply["tokenize_response"]) == reply["templated_text"]


def test_headers_report_the_cost_of_an_answer(server: ServerProcess) -> None:
    greedy = {"do_sample": False}  # without parameters TGI samples
    headers = server.post("/", {"inputs": QUESTION, "parameters": greedy}).headers
    assert int(headers["x-generated-tokens"]) == generate(server)["details"]["generated_tokens"]
    assert int(headers["x-total-time"]) >= int(headers["x-inference-time"]) >= 0
    assert headers["x-compute-characters"] == str(len(QUESTION))
    info = requests.get(f"{server.url}/info", timeout=60).json()
    assert (info["max_total_tokens"], info["model_device_type"]) == (2048, "cpu")
