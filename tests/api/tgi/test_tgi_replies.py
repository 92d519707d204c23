"""Whole answers and streams in the shapes that TGI's clients read."""

import json
from typing import Any

import pytest
from flask.testing import FlaskClient

from api import create_app
from inference.events import Finished, PromptToken, Started, Token, TopLogprob
from inference.types import GenerationRequest
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend, Script, make_models, say

PROMPT = (PromptToken(1, "<s>", None), PromptToken(7, "Hi", -3.5))
TOP = (TopLogprob(5, " a", -0.5), TopLogprob(6, " an", -1.5), TopLogprob(2, "</s>", -1.5, is_special=True))


def answer_script(index: int = 0, logprob: float = -0.5, seed: int | None = None) -> Script:
    """Two tokens and the end token; `logprob` is that of the second."""
    return [
        Started(index, 2, 0, (1, 7), PROMPT, queue_time_s=0.25),
        Token(index, 5, " a", -0.5, TOP, spelling=" a"),
        Token(index, 8, " b", logprob, spelling=" b"),
        Token(index, 2, "", -0.25, is_special=True, spelling="</s>"),
        Finished(index, "stop", num_tokens=3, seed=seed),
    ]


def several(request: GenerationRequest) -> Script:
    return [event for i in range(request.n) for event in answer_script(i, -1.0 + i * 0.5, seed=40 + i)]


def client_with(script: Any, **settings: Any) -> FlaskClient:
    return create_app(make_models(FakeBackend(script)), ServerSettings(**settings)).test_client()


def body(stream: bool | None = None, **parameters: Any) -> dict[str, Any]:
    return {"inputs": "Hi", "parameters": parameters} | ({} if stream is None else {"stream": stream})


def events(client: FlaskClient, path: str = "/generate_stream", **parameters: Any) -> list[Any]:
    response = client.post(path, json=body(stream=True, **parameters))
    assert (response.status_code, response.mimetype) == (200, "text/event-stream")
    *frames, last = response.text.split("\n\n")
    assert last == ""
    return [json.loads(event.removeprefix("data: ")) for event in frames]


@pytest.fixture
def client() -> FlaskClient:
    return client_with(several)


def test_without_details_there_is_only_the_text(client: FlaskClient) -> None:
    assert client.post("/generate", json=body()).json == {"generated_text": " a b"}


def test_the_details_describe_tokens_seed_and_finish_reason(client: FlaskClient) -> None:
    reply = client.post("/generate", json=body(details=True)).json
    assert reply == {
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


def test_the_root_returns_a_list_whose_text_begins_with_the_prompt(client: FlaskClient) -> None:
    for path in ("/", "/invocations"):
        assert client.post(path, json={"inputs": "Hi"}).json == [{"generated_text": "Hi a b"}]
        fields = body(return_full_text=False)
        assert client.post(path, json=fields).json == [{"generated_text": " a b"}]


def test_the_full_text_is_the_prompt_and_the_answer(client: FlaskClient) -> None:
    reply = client.post("/generate", json=body(return_full_text=True, truncate=1)).json
    assert reply["generated_text"] == "Hi a b"


def test_prompt_tokens_are_returned_if_requested(client: FlaskClient) -> None:
    details = client.post("/generate", json=body(decoder_input_details=True)).json["details"]
    assert details["prefill"] == [
        {"id": 1, "text": "<s>", "logprob": None},
        {"id": 7, "text": "Hi", "logprob": -3.5},
    ]
    assert len(details["tokens"]) == 3


def test_prompt_tokens_can_be_disabled() -> None:
    client = client_with(several, enable_prefill_logprobs=False)
    details = client.post("/generate", json=body(decoder_input_details=True)).json["details"]
    assert details["prefill"] == []


def test_tokens_tied_with_the_last_top_token_are_returned_too(client: FlaskClient) -> None:
    one = client.post("/generate", json=body(details=True, top_n_tokens=1)).json["details"]
    two = client.post("/generate", json=body(details=True, top_n_tokens=2)).json["details"]
    assert [token["id"] for token in one["top_tokens"][0]] == [5]
    assert two["top_tokens"][0][2] == {"id": 2, "text": "</s>", "logprob": -1.5, "special": True}
    assert [token["id"] for token in two["top_tokens"][0]] == [5, 6, 2]


def test_an_impossible_token_is_no_top_token() -> None:
    top = (TopLogprob(5, " a", -0.5), TopLogprob(6, " b", float("-inf")))
    script = [Started(0, 1, 0), Token(0, 5, " a", -0.5, top), Finished(0, "length", num_tokens=1)]
    details = client_with(script).post("/generate", json=body(details=True, top_n_tokens=2)).json["details"]
    assert [token["id"] for token in details["top_tokens"][0]] == [5]


def test_the_best_answer_is_returned_together_with_the_others(client: FlaskClient) -> None:
    fields = body(best_of=2, do_sample=True, details=True, return_full_text=True)
    reply = client.post("/generate", json=fields).json
    (other,) = reply["details"]["best_of_sequences"]
    assert (reply["details"]["seed"], other["seed"]) == (41, 40)
    assert reply["details"]["tokens"][1]["logprob"] == -0.5
    assert (reply["generated_text"], other["generated_text"]) == ("Hi a b", "Hi a b")
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
        (Finished(0, "length", num_tokens=2), 2, "length"),
        (Finished(0, "stop", num_tokens=2), 3, "eos_token"),
        (Finished(0, "stop", num_tokens=2), None, "eos_token"),
        (Finished(0, "stop", stop=" b", num_tokens=2), 3, "stop_sequence"),
        (Finished(0, "stop", stop=2042, num_tokens=2), 3, "eos_token"),
        (Finished(0, "stop", num_tokens=2), 2, "length"),
        (Finished(0, "stop", stop=" b", num_tokens=2), 2, "length"),
        (Finished(0, "deadline", num_tokens=2), None, "length"),
    ],
)
def test_length_takes_precedence_over_eos_and_eos_over_a_stop_string(
    end: Finished, limit: int | None, reason: str
) -> None:
    client = client_with([*say(" a", " b")[:-1], end])
    details = client.post("/generate", json=body(details=True, max_new_tokens=limit)).json["details"]
    assert (details["finish_reason"], details["generated_tokens"]) == (reason, 2)
    (*_, last) = events(client, details=True, max_new_tokens=limit)
    assert last["details"]["finish_reason"] == reason


def test_withheld_text_belongs_to_the_last_token() -> None:
    script = [*say(" a", " b")[:-1], Finished(0, "length", "\ufffd", num_tokens=2)]
    reply = client_with(script).post("/generate", json=body(details=True)).json
    assert reply["generated_text"] == " a b\ufffd"
    assert [token["text"] for token in reply["details"]["tokens"]] == [" a", " b\ufffd"]
    assert events(client_with(script))[-1]["token"]["text"] == " b\ufffd"


def test_a_logprob_is_never_null() -> None:
    script = [Started(0, 1, 0), Token(0, 5, "a", float("-inf")), Finished(0, "length", num_tokens=1)]
    details = client_with(script).post("/generate", json=body(details=True)).json["details"]
    assert details["tokens"][0]["logprob"] == -9999.0


@pytest.mark.parametrize("path", ["/generate_stream", "/", "/invocations"])
def test_a_stream_has_an_event_per_token_and_the_text_in_the_last(client: FlaskClient, path: str) -> None:
    stream_events = events(client, path, return_full_text=False, details=True)
    assert stream_events == [
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


def test_a_stream_sends_details_only_if_they_are_requested(client: FlaskClient) -> None:
    last = events(client)[-1]
    assert (last["generated_text"], last["details"]) == (" a b", None)


def test_a_stream_has_top_tokens_where_there_are_any(client: FlaskClient) -> None:
    first, second, _ = events(client, top_n_tokens=1)
    assert [token["id"] for token in first["top_tokens"]] == [5]
    assert "top_tokens" not in second


def test_a_streams_text_begins_with_the_prompt_as_a_whole_answers_does(client: FlaskClient) -> None:
    assert events(client)[-1]["generated_text"] == " a b"
    assert events(client, "/")[-1]["generated_text"] == "Hi a b"
    assert events(client, "/", return_full_text=False)[-1]["generated_text"] == " a b"


def test_an_end_without_a_token_has_an_event_of_its_own() -> None:
    stream_events = events(client_with([Started(0, 1, 0), Finished(0, "deadline")]))
    assert [event["token"]["special"] for event in stream_events] == [True]
    assert stream_events[0]["generated_text"] == ""


def test_length_by_the_settings_takes_precedence_over_eos_too() -> None:
    reply = client_with(several, default_max_tokens=3).post("/generate", json=body(details=True)).json
    assert reply["details"]["finish_reason"] == "length"


def test_only_the_root_reads_the_stream_field(client: FlaskClient) -> None:
    assert client.post("/generate", json=body(stream=True)).mimetype == "application/json"
    assert client.post("/", json=body(stream=False)).mimetype == "application/json"


COUNTED = {"x-compute-characters": "2", "x-prompt-tokens": "2", "x-generated-tokens": "3"}
TIMED = ("x-total-time", "x-validation-time", "x-queue-time", "x-inference-time", "x-time-per-token")


def test_the_headers_of_a_whole_answer_report_its_cost(client: FlaskClient) -> None:
    headers = client.post("/generate", json=body()).headers
    assert {name: headers[name] for name in COUNTED} == COUNTED
    assert all(headers[name].isdigit() for name in TIMED)
    assert headers["x-queue-time"] == "250"
    assert float(headers["x-compute-time"]) > 0
    assert headers["x-compute-type"] == "cpu"


def test_the_headers_of_a_stream_report_what_is_known_before_it(client: FlaskClient) -> None:
    headers = client.post("/generate_stream", json=body()).headers
    names = {name for name, _ in headers if name.startswith("x-")}
    assert names == {"x-compute-type", "x-compute-characters"}
    assert headers["X-Accel-Buffering"] == "no"


def test_a_pushed_answer_equals_a_pulled_one(live: Any) -> None:
    backend = FakeBackend(several)
    running = live(backend)
    pushed = running.post("/generate_stream", body(details=True), "Connection: close")
    data = b""
    while chunk := pushed.recv(1 << 16):
        data += chunk
    assert data.count(b"data: ") == 3
    assert b'"generated_text":" a b"' in data
    assert b"x-compute-type: cpu" in data.lower()
    response = running.post("/generate", body(), "Connection: close")
    head = response.recv(1 << 16).lower()
    assert b"x-generated-tokens: 3" in head and b"x-queue-time: 250" in head
