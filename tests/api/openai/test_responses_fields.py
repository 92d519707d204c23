"""The fields of a response: those that Open Responses and OpenAI's clients require, and what they repeat.

Open Responses is the specification at openresponses.org, whose compliance tests check a response's schema.
"""

import time
from typing import Any

import pytest
from flask.testing import FlaskClient

from inference.types import GenerationRequest
from tests.api.openai.app_requests import CHATS, RESPONSES, body_for, events, get_response, refusal
from tests.fakes.fake_backend import FakeBackend, say

REPEATED = {  # as a client may send them, other than the defaults
    "frequency_penalty": 0.5,
    "instructions": "Be brief.",
    "max_output_tokens": 30,
    "max_tool_calls": 3,
    "metadata": {"a": "b"},
    "parallel_tool_calls": False,
    "presence_penalty": -0.5,
    "prompt_cache_key": "key",
    "safety_identifier": "user-1",
    "temperature": 0.5,
    "top_logprobs": 2,
    "top_p": 0.5,
    "truncation": "auto",
}
SAMPLING: dict[str, Any] = {
    "allowed_token_ids": [1, 2],
    "bad_words": ["no"],
    "cache_salt": "salt",
    "chat_template_kwargs": {"enable_thinking": False},
    "frequency_penalty": 0.5,
    "ignore_eos": True,
    "include_stop_str_in_output": True,
    "logit_bias": {"5": 2.0},
    "min_p": 0.1,
    "presence_penalty": -0.5,
    "repetition_penalty": 1.1,
    "seed": 7,
    "skip_special_tokens": False,
    "stop": ["end"],
    "stop_token_ids": [3],
    "top_k": 4,
}
ENDS = (  # fields of GenerationRequest
    *("bad_words", "cache_salt", "ignore_eos", "include_stop_str_in_output", "show_special"),
    *("stop", "stop_token_ids"),
)


def test_a_response_repeats_its_request(client: FlaskClient) -> None:
    response = get_response(client, RESPONSES, **REPEATED)
    assert {name: response[name] for name in REPEATED} == REPEATED


def test_a_response_has_the_values_of_fields_that_were_not_sent(client: FlaskClient) -> None:
    response = get_response(client, RESPONSES)
    assert (response["presence_penalty"], response["frequency_penalty"]) == (0, 0)
    assert (response["temperature"], response["top_p"], response["service_tier"]) == (1, 1, "default")
    unset = ("max_tool_calls", "safety_identifier", "prompt_cache_key")
    assert [response[name] for name in unset] == [None] * 3


def test_the_end_of_a_complete_response_has_its_time(client: FlaskClient, backend: FakeBackend) -> None:
    created, *_, completed = events(client)
    assert created["response"]["completed_at"] is None
    end = completed["response"]["completed_at"]
    assert completed["response"]["created_at"] <= end <= time.time()
    backend.script = say("cut", reason="length")
    assert get_response(client, RESPONSES)["completed_at"] is None


def test_a_stored_response_has_the_same_end(stored_client: FlaskClient) -> None:
    sent = get_response(stored_client, RESPONSES)
    stored = stored_client.get(f"{RESPONSES}/{sent['id']}").get_json()
    assert stored["completed_at"] == sent["completed_at"] is not None


@pytest.mark.parametrize("field", SAMPLING)
def test_an_answer_is_sampled_as_in_a_chat(client: FlaskClient, backend: FakeBackend, field: str) -> None:
    """vLLM has these fields in responses too."""

    def request(path: str, **fields: Any) -> GenerationRequest:
        get_response(client, path, **fields)
        return backend.requests[-1]

    value = {field: SAMPLING[field]}
    plain, response, chat = request(RESPONSES), request(RESPONSES, **value), request(CHATS, **value)
    assert response != plain
    assert (response.sampling, response.template) == (chat.sampling, chat.template)
    assert [getattr(response, name) for name in ENDS] == [getattr(chat, name) for name in ENDS]


def test_a_penalty_out_of_range_is_refused(client: FlaskClient) -> None:
    response = client.post(RESPONSES, json=body_for(RESPONSES, presence_penalty=3))
    refusal(response, 400, "presence_penalty must be in [-2, 2], got 3.", "BadRequestError")
