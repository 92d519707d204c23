"""What TGI's clients read: whole answers and streams, in the shapes of the contract."""

import json
from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from api.settings import AppSettings
from inference.types import (
    Alternative,
    Finished,
    GenerationRequest,
    PromptToken,
    Started,
    Token,
)
from tests.fake_backend import FakeBackend, Script, say

PROMPT = (PromptToken(1, "<s>", None), PromptToken(7, "Hi", -3.5))
TOP = (Alternative(5, " a", -0.5), Alternative(6, " an", -1.5), Alternative(2, "</s>", -1.5, special=True))


def answered(index: int = 0, logprob: float = -0.5, seed: int | None = None) -> Script:
    """Two tokens and the model's own end; the second is as probable as `logprob` says."""
    return [
        Started(index, 2, 0, (1, 7), PROMPT, waited=0.25),
        Token(index, 5, " a", -0.5, TOP, spelling=" a"),
        Token(index, 8, " b", logprob, spelling=" b"),
        Token(index, 2, "", -0.25, special=True, spelling="</s>"),
        Finished(index, "stop", tokens=3, seed=seed),
    ]


def several(request: GenerationRequest) -> Script:
    return [event for i in range(request.n) for event in answered(i, -1.0 + i * 0.5, seed=40 + i)]


def client_with(script: Any, **settings: Any) -> FlaskClient:
    return create_app(FakeBackend(script), AppSettings(**settings)).test_client()


def body(stream: bool | None = None, **parameters: Any) -> dict[str, Any]:
    return {"inputs": "Hi", "parameters": parameters} | ({} if stream is None else {"stream": stream})


def events(client: FlaskClient, path: str = "/generate_stream", **parameters: Any) -> list[Any]:
    response = client.post(path, json=body(stream=True, **parameters))
    assert (response.status_code, response.mimetype) == (200, "text/event-stream")
    *told, last = response.text.split("\n\n")
    assert last == ""
    return [json.loads(event.removeprefix("data: ")) for event in told]


@pytest.fixture
def client() -> FlaskClient:
    return client_with(several)


# Whole ---------------------------------------------------------------------------------------------------


def test_without_details_there_is_only_the_text(client: FlaskClient) -> None:
    assert client.post("/generate", json=body()).json == {"generated_text": " a b"}


def test_the_details_tell_how_an_answer_came_about(client: FlaskClient) -> None:
    told = client.post("/generate", json=body(details=True)).json
    assert told == {
        "generated_text": " a b",
        "details": {
            "finish_reason": "eos_token",
            "generated_tokens": 3,
            "seed": 40,
            "prefill": [],
            "tokens": [
                {"id": 5, "text": " a", "logprob": -0.5, "special": False},
                {"id": 8, "text": " b", "logprob": -1.0, "special": False},
                {"id": 2, "text": "</s>", "logprob": -0.25, "special": True},
            ],
        },
    }


def test_at_the_root_the_answer_is_in_a_list_and_begins_with_the_prompt(client: FlaskClient) -> None:
    for path in ("/", "/invocations"):
        assert client.post(path, json={"inputs": "Hi"}).json == [{"generated_text": "Hi a b"}]
        asked = body(return_full_text=False)
        assert client.post(path, json=asked).json == [{"generated_text": " a b"}]


def test_the_full_text_is_the_prompt_and_the_answer(client: FlaskClient) -> None:
    told = client.post("/generate", json=body(return_full_text=True, truncate=1)).json
    assert told["generated_text"] == "Hi a b"


def test_the_prompts_tokens_are_told_where_they_are_asked_for(client: FlaskClient) -> None:
    details = client.post("/generate", json=body(decoder_input_details=True)).json["details"]
    assert details["prefill"] == [
        {"id": 1, "text": "<s>", "logprob": None},
        {"id": 7, "text": "Hi", "logprob": -3.5},
    ]
    assert len(details["tokens"]) == 3


def test_the_prompts_tokens_can_be_turned_off() -> None:
    client = client_with(several, prefill_logprobs=False)
    details = client.post("/generate", json=body(decoder_input_details=True)).json["details"]
    assert details["prefill"] == []


def test_tokens_as_probable_as_the_last_are_told_too(client: FlaskClient) -> None:
    one = client.post("/generate", json=body(details=True, top_n_tokens=1)).json["details"]
    two = client.post("/generate", json=body(details=True, top_n_tokens=2)).json["details"]
    assert [token["id"] for token in one["top_tokens"][0]] == [5]
    assert two["top_tokens"][0][2] == {"id": 2, "text": "</s>", "logprob": -1.5, "special": True}
    assert [token["id"] for token in two["top_tokens"][0]] == [5, 6, 2]


def test_what_cannot_be_chosen_is_no_top_token() -> None:
    top = (Alternative(5, " a", -0.5), Alternative(6, " b", float("-inf")))
    script = [Started(0, 1, 0), Token(0, 5, " a", -0.5, top), Finished(0, "length", tokens=1)]
    details = client_with(script).post("/generate", json=body(details=True, top_n_tokens=2)).json["details"]
    assert [token["id"] for token in details["top_tokens"][0]] == [5]


def test_the_best_of_several_is_told_and_the_others_beside_it(client: FlaskClient) -> None:
    asked = body(best_of=2, do_sample=True, details=True, return_full_text=True)
    told = client.post("/generate", json=asked).json
    (other,) = told["details"]["best_of_sequences"]
    assert (told["details"]["seed"], other["seed"]) == (41, 40)
    assert told["details"]["tokens"][1]["logprob"] == -0.5
    assert (told["generated_text"], other["generated_text"]) == ("Hi a b", "Hi a b")
    assert set(other) == {
        "generated_text",
        "finish_reason",
        "generated_tokens",
        "seed",
        "prefill",
        "tokens",
    }


def test_the_best_of_one_has_no_others(client: FlaskClient) -> None:
    details = client.post("/generate", json=body(best_of=1, details=True)).json["details"]
    assert "best_of_sequences" not in details and "top_tokens" not in details


@pytest.mark.parametrize(
    ("end", "limit", "reason"),
    [
        (Finished(0, "length", tokens=2), 2, "length"),
        (Finished(0, "stop", tokens=2), 3, "eos_token"),
        (Finished(0, "stop", tokens=2), None, "eos_token"),
        (Finished(0, "stop", stop=" b", tokens=2), 3, "stop_sequence"),
        (Finished(0, "stop", tokens=2), 2, "length"),
        (Finished(0, "stop", stop=" b", tokens=2), 2, "length"),
        (Finished(0, "deadline", tokens=2), None, "length"),
    ],
)
def test_the_limit_is_told_before_the_end_and_the_end_before_a_stop(
    end: Finished, limit: int | None, reason: str
) -> None:
    client = client_with([*say(" a", " b")[:-1], end])
    details = client.post("/generate", json=body(details=True, max_new_tokens=limit)).json["details"]
    assert (details["finish_reason"], details["generated_tokens"]) == (reason, 2)
    (*_, last) = events(client, details=True, max_new_tokens=limit)
    assert last["details"]["finish_reason"] == reason


def test_what_was_held_back_belongs_to_the_last_token() -> None:
    script = [*say(" a", " b")[:-1], Finished(0, "length", "\ufffd", tokens=2)]
    told = client_with(script).post("/generate", json=body(details=True)).json
    assert told["generated_text"] == " a b\ufffd"
    assert [token["text"] for token in told["details"]["tokens"]] == [" a", " b\ufffd"]
    assert events(client_with(script))[-1]["token"]["text"] == " b\ufffd"


def test_a_logprob_is_never_null() -> None:
    script = [Started(0, 1, 0), Token(0, 5, "a", float("-inf")), Finished(0, "length", tokens=1)]
    details = client_with(script).post("/generate", json=body(details=True)).json["details"]
    assert details["tokens"][0]["logprob"] == -9999.0


# Streamed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/generate_stream", "/", "/invocations"])
def test_a_stream_has_an_event_a_token_and_the_text_in_the_last(client: FlaskClient, path: str) -> None:
    told = events(client, path, return_full_text=False, details=True)
    assert told == [
        {
            "index": 1,
            "token": {"id": 5, "text": " a", "logprob": -0.5, "special": False},
            "generated_text": None,
            "details": None,
        },
        {
            "index": 2,
            "token": {"id": 8, "text": " b", "logprob": -1.0, "special": False},
            "generated_text": None,
            "details": None,
        },
        {
            "index": 3,
            "token": {"id": 2, "text": "</s>", "logprob": -0.25, "special": True},
            "generated_text": " a b",
            "details": {
                "finish_reason": "eos_token",
                "generated_tokens": 3,
                "seed": 40,
                "input_length": 2,
            },
        },
    ]


def test_a_stream_tells_details_only_where_they_are_asked_for(client: FlaskClient) -> None:
    last = events(client)[-1]
    assert (last["generated_text"], last["details"]) == (" a b", None)


def test_a_stream_has_top_tokens_where_there_are_any(client: FlaskClient) -> None:
    first, second, _ = events(client, top_n_tokens=1)
    assert [token["id"] for token in first["top_tokens"]] == [5]
    assert "top_tokens" not in second


def test_a_streams_text_begins_with_the_prompt_as_a_whole_ones_does(client: FlaskClient) -> None:
    assert events(client)[-1]["generated_text"] == " a b"
    assert events(client, "/")[-1]["generated_text"] == "Hi a b"
    assert events(client, "/", return_full_text=False)[-1]["generated_text"] == " a b"


def test_an_end_without_a_token_has_an_event_of_its_own() -> None:
    told = events(client_with([Started(0, 1, 0), Finished(0, "deadline")]))
    assert [event["token"]["special"] for event in told] == [True]
    assert told[0]["generated_text"] == ""


def test_the_limit_of_the_settings_goes_before_the_models_end_too() -> None:
    told = client_with(several, max_tokens=3).post("/generate", json=body(details=True)).json
    assert told["details"]["finish_reason"] == "length"


def test_only_the_root_reads_whether_to_stream(client: FlaskClient) -> None:
    assert client.post("/generate", json=body(stream=True)).mimetype == "application/json"
    assert client.post("/", json=body(stream=False)).mimetype == "application/json"


# Headers -------------------------------------------------------------------------------------------------

COUNTED = {"x-compute-characters": "2", "x-prompt-tokens": "2", "x-generated-tokens": "3"}
TIMED = ("x-total-time", "x-validation-time", "x-queue-time", "x-inference-time", "x-time-per-token")


def test_a_whole_answers_headers_tell_what_it_cost(client: FlaskClient) -> None:
    headers = client.post("/generate", json=body()).headers
    assert {name: headers[name] for name in COUNTED} == COUNTED
    assert all(headers[name].isdigit() for name in TIMED)
    assert headers["x-queue-time"] == "250"
    assert float(headers["x-compute-time"]) > 0
    assert headers["x-compute-type"] == "cpu"


def test_a_streams_headers_tell_what_is_known_before_it(client: FlaskClient) -> None:
    headers = client.post("/generate_stream", json=body()).headers
    names = {name for name, _ in headers if name.startswith("x-")}
    assert names == {"x-compute-type", "x-compute-characters"}
    assert headers["X-Accel-Buffering"] == "no"


# Pushed, as the server does it ---------------------------------------------------------------------------


def test_what_is_pushed_is_what_is_pulled(live: Any) -> None:
    backend = FakeBackend(several)
    running = live(backend)
    pushed = running.post("/generate_stream", body(details=True), "Connection: close")
    whole = b""
    while piece := pushed.recv(1 << 16):
        whole += piece
    assert whole.count(b"data: ") == 3
    assert b'"generated_text":" a b"' in whole
    assert b"x-compute-type: cpu" in whole.lower()
    answer = running.post("/generate", body(), "Connection: close")
    head = answer.recv(1 << 16).lower()
    assert b"x-generated-tokens: 3" in head and b"x-queue-time: 250" in head
