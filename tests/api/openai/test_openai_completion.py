"""Completions as clients of OpenAI and vLLM read them, streamed and whole."""

import json
from dataclasses import replace
from typing import Any

from flask.testing import FlaskClient

from inference.events import Finished, PromptToken, Started, Token, TopLogprob
from inference.types import GenerationRequest
from tests.api.openai.app_requests import COMPLETIONS, body_for, chunks, get_response
from tests.fakes.fake_backend import FakeBackend, Script, say

INF = float("inf")
TOP = (TopLogprob(5, " a", -0.1), TopLogprob(6, " b", -2.0), TopLogprob(7, " c", -3.0))
PROMPT = (
    PromptToken(1, "<s>", None),
    PromptToken(2, "On", -1.5, rank=2, top_logprobs=(TopLogprob(9, "In", -0.5), TopLogprob(2, "On", -1.5))),
)
SCORED: Script = [
    Started(0, prompt_tokens=2, cached_tokens=1, prompt_token_ids=(1, 2), prompt_logprobs=PROMPT),
    Token(0, 5, "", -0.1, TOP, spelling=" a"),
    Token(0, 8, " a d", -INF, TOP, spelling=" d"),
    Finished(0, "length", text="!", num_tokens=2),
]


def fixed(values: Any, **known: Any) -> Any:
    """A JSON copy in which `known` replaces the fields that differ between requests."""
    return json.loads(json.dumps(values)) | known


def test_a_whole_completion_has_vllms_shape(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = say(" a", reason="length")
    got = get_response(client, COMPLETIONS, model="fake/model")
    assert got["id"].startswith("cmpl-")
    assert abs(got["created"] - 1.6e9) < 1e9
    choice = {
        "index": 0,
        "text": " a",
        "logprobs": None,
        "finish_reason": "length",
        "stop_reason": None,
        "prompt_logprobs": None,
    }
    usage = {"prompt_tokens": 3, "total_tokens": 4, "completion_tokens": 1}
    assert fixed(got, id="", created=0) == {
        "id": "",
        "object": "text_completion",
        "created": 0,
        "model": "fake/model",
        "choices": [choice],
        "usage": usage | {"prompt_tokens_details": {"cached_tokens": 0}},
        "system_fingerprint": "hearth-1.2.3",
    }


def test_a_stream_has_one_id_and_ends_with_its_reason(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = say("Hello", "", " world")
    got = chunks(client, COMPLETIONS)
    assert [chunk["choices"][0]["text"] for chunk in got] == ["Hello", " world", ""]
    assert [chunk["choices"][0]["finish_reason"] for chunk in got] == [None, None, "stop"]
    assert len({chunk["id"] for chunk in got}) == 1
    assert {type(chunk["system_fingerprint"]) for chunk in got} == {str}
    assert not any("usage" in chunk for chunk in got)


def test_the_last_chunk_has_the_usage_if_it_is_requested(client: FlaskClient) -> None:
    *earlier, last = chunks(client, COMPLETIONS, stream_options={"include_usage": True})
    assert [chunk["usage"] for chunk in earlier] == [None] * 3
    assert last["choices"] == []
    assert (last["usage"]["prompt_tokens"], last["usage"]["completion_tokens"]) == (3, 2)


def test_every_chunk_has_the_usage_if_it_is_requested(client: FlaskClient) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    got = chunks(client, COMPLETIONS, stream_options=options)
    assert [chunk["usage"]["completion_tokens"] for chunk in got] == [1, 2, 2, 2]


def test_continuous_usage_needs_include_usage(client: FlaskClient) -> None:
    assert "usage" not in chunks(client, COMPLETIONS, stream_options={"continuous_usage_stats": True})[0]


def test_cached_tokens_are_reported(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = SCORED
    assert get_response(client, COMPLETIONS)["usage"]["prompt_tokens_details"] == {"cached_tokens": 1}


def test_logprobs_are_parallel_lists(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = SCORED
    choice = get_response(client, COMPLETIONS, logprobs=2)["choices"][0]
    assert choice["text"] == " a d!"
    assert choice["logprobs"] == {
        "text_offset": [0, 2],
        "token_logprobs": [-0.1, -9999.0],
        "tokens": [" a", " d"],
        "top_logprobs": [{" a": -0.1, " b": -2.0}, {" d": -9999.0, " a": -0.1, " b": -2.0}],
    }
    assert backend.requests[0].logprobs == 2


def test_zero_alternatives_leave_the_chosen_token(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = SCORED
    logprobs = get_response(client, COMPLETIONS, logprobs=0)["choices"][0]["logprobs"]
    assert logprobs["top_logprobs"] == [{" a": -0.1}, {" d": -9999.0}]


def test_tokens_may_be_written_as_their_ids(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = SCORED
    fields = {"logprobs": 1, "return_tokens_as_token_ids": True}
    logprobs = get_response(client, COMPLETIONS, **fields)["choices"][0]["logprobs"]
    assert logprobs["tokens"] == ["token_id:5", "token_id:8"]
    assert logprobs["top_logprobs"][1] == {"token_id:8": -9999.0, "token_id:5": -0.1}


def test_an_echo_begins_with_the_prompt_whose_first_token_has_no_logprob(
    client: FlaskClient, backend: FakeBackend
) -> None:
    backend.script = SCORED
    choice = get_response(client, COMPLETIONS, echo=True, logprobs=1)["choices"][0]
    assert choice["text"] == "Once a d!"
    assert choice["logprobs"]["token_logprobs"] == [None, -1.5, -0.1, -9999.0]
    assert choice["logprobs"]["top_logprobs"][:2] == [None, {"On": -1.5, "In": -0.5}]
    assert choice["logprobs"]["text_offset"] == [0, 3, 5, 7]
    assert backend.requests[0].prompt_logprobs == 1


def test_an_echo_of_token_ids_is_their_text(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = SCORED
    assert get_response(client, COMPLETIONS, prompt=[1, 2], echo=True)["choices"][0]["text"] == "w1 w2 a d!"
    got = get_response(client, COMPLETIONS, echo=True, truncate_prompt_tokens=2)
    assert got["choices"][0]["text"] == "w1 w2 a d!"


def test_an_echo_without_tokens_only_scores_the_prompt(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = [SCORED[0], Finished(0, "length")]
    choice = get_response(client, COMPLETIONS, echo=True, max_tokens=0, logprobs=0)["choices"][0]
    assert (choice["text"], choice["logprobs"]["tokens"]) == ("Once", ["<s>", "On"])
    assert backend.requests[0].max_tokens == 0


def test_prompt_logprobs_have_ids_and_ranks(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = SCORED
    choice = get_response(client, COMPLETIONS, prompt_logprobs=1)["choices"][0]
    assert choice["prompt_logprobs"] == [
        None,
        {
            "2": {"logprob": -1.5, "rank": 2, "decoded_token": "On"},
            "9": {"logprob": -0.5, "rank": 1, "decoded_token": "In"},
        },
    ]


def test_token_ids_are_returned_on_request(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = SCORED
    choice = get_response(client, COMPLETIONS, return_token_ids=True)["choices"][0]
    assert (choice["prompt_token_ids"], choice["token_ids"]) == ([1, 2], [5, 8])
    first, *rest = (chunk["choices"][0] for chunk in chunks(client, COMPLETIONS, return_token_ids=True))
    assert first["prompt_token_ids"] == [1, 2]
    assert [choice["token_ids"] for choice in rest[:-1]] == [[5], [8]]


def test_a_stop_is_reported(client: FlaskClient, backend: FakeBackend) -> None:
    backend.script = [SCORED[0], Finished(0, "stop", stop="\n\n")]
    choice = get_response(client, COMPLETIONS, stop="\n\n")["choices"][0]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", "\n\n")
    assert chunks(client, COMPLETIONS)[-1]["choices"][0]["stop_reason"] == "\n\n"


def test_choices_are_numbered_by_prompt_then_answer(client: FlaskClient, backend: FakeBackend) -> None:
    def script(request: GenerationRequest) -> Script:
        name = request.prompt if isinstance(request.prompt, str) else "ids"
        return [
            step
            for k in range(request.n)
            for step in say(f"{name}{k}", index=k)
            if not isinstance(step, float)
        ]

    backend.script = script
    got = get_response(client, COMPLETIONS, prompt=["a", "b", [1, 2]], n=2)
    assert [choice["text"] for choice in got["choices"]] == ["a0", "a1", "b0", "b1", "ids0", "ids1"]
    assert [choice["index"] for choice in got["choices"]] == list(range(6))
    assert got["usage"]["prompt_tokens"] == 9
    assert got["usage"]["completion_tokens"] == 6
    streamed = chunks(client, COMPLETIONS, prompt=["a", "b", [1, 2]], n=2)
    texts = {
        choice["index"]: choice["text"] for chunk in streamed for choice in chunk["choices"] if choice["text"]
    }
    assert texts == {0: "a0", 1: "a1", 2: "b0", 3: "b1", 4: "ids0", 5: "ids1"}
    groups = [request.group for request in backend.requests]
    assert groups == [groups[0]] * 3 + [groups[3]] * 3 and groups[0] != groups[3]
    get_response(client, COMPLETIONS, prompt="a")
    assert backend.requests[-1].group == 0, "a prompt alone is in no group"


def test_the_last_possible_token_is_sent_with_the_end(client: FlaskClient, backend: FakeBackend) -> None:
    """As in vLLM, whose tests count a chunk for each token and expect text in the last."""
    backend.script = [*SCORED[:-1], Finished(0, "length", text="!", num_tokens=2)]
    fields = {"max_tokens": 2, "logprobs": 0, "return_token_ids": True}
    options = {"include_usage": True, "continuous_usage_stats": True}
    _, first, last, total = chunks(client, COMPLETIONS, **fields, stream_options=options)
    (choice,) = last["choices"]
    assert (choice["text"], choice["finish_reason"], choice["token_ids"]) == (" a d!", "length", [8])
    assert (choice["logprobs"]["tokens"], choice["logprobs"]["text_offset"]) == ([" d"], [2])
    counts = [chunk["usage"]["completion_tokens"] for chunk in (first, last, total)]
    assert counts == [1, 2, 2]


def test_an_end_of_text_token_is_sent_with_the_end(client: FlaskClient, backend: FakeBackend) -> None:
    """As in vLLM and SGLang, whose tests read logprobs of every chunk."""
    end = Token(0, 9, "", -0.3, (), is_special=True, spelling="</s>")
    backend.script = [
        SCORED[0],
        Token(0, 7, "a", -0.1, (), spelling="a"),
        end,
        Finished(0, "stop", num_tokens=2),
    ]
    options = {"include_usage": True, "continuous_usage_stats": True}
    first, last, _ = chunks(client, COMPLETIONS, logprobs=0, stream_options=options)
    assert [chunk["choices"][0]["logprobs"]["tokens"] for chunk in (first, last)] == [["a"], ["</s>"]]
    assert [chunk["choices"][0]["finish_reason"] for chunk in (first, last)] == [None, "stop"]
    assert [chunk["usage"]["completion_tokens"] for chunk in (first, last)] == [1, 2]


def test_the_first_tokens_of_an_answer_belong_to_one_prompt(client: FlaskClient) -> None:
    assert client.post(COMPLETIONS, json={"prompt": ["a"], "output_token_ids": [5]}).status_code == 200
    response = client.post(COMPLETIONS, json={"prompt": ["a", "b"], "output_token_ids": [5]})
    error = response.get_json()["error"]
    assert (response.status_code, error["param"]) == (400, "output_token_ids")
    assert error["message"].endswith("send one prompt, got 2")


def test_a_list_of_ids_is_one_prompt(client: FlaskClient, backend: FakeBackend) -> None:
    get_response(client, COMPLETIONS, prompt=[1, 2, 3])
    assert [request.prompt for request in backend.requests] == [[1, 2, 3]]


def test_best_of_returns_the_answers_with_the_highest_mean_logprobs(
    client: FlaskClient, backend: FakeBackend
) -> None:
    means = [-3.0, -1.0, -2.0]
    backend.script = [
        replace(step, logprob=mean) if isinstance(step, Token) else step
        for index, mean in enumerate(means)
        for step in say(f"answer {index}", index=index)
    ]
    got = get_response(client, COMPLETIONS, n=2, best_of=3)
    assert [choice["text"] for choice in got["choices"]] == ["answer 1", "answer 2"]
    assert [choice["index"] for choice in got["choices"]] == [0, 1]
    assert all(choice["logprobs"] is None for choice in got["choices"])
    assert (backend.requests[0].n, backend.requests[0].logprobs) == (3, 0)
    assert got["usage"]["completion_tokens"] == 3


def test_best_of_may_be_streamed_if_it_equals_n(client: FlaskClient) -> None:
    assert client.post(COMPLETIONS, json=body_for(COMPLETIONS, best_of=1, stream=True)).status_code == 200


def test_a_request_id_becomes_part_of_the_id(client: FlaskClient) -> None:
    assert get_response(client, COMPLETIONS, request_id="mine")["id"] == "cmpl-mine"
    response = client.post(COMPLETIONS, json=body_for(COMPLETIONS), headers={"X-Request-Id": "theirs"})
    assert response.get_json()["id"] == "cmpl-theirs"
