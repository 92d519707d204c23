"""The field generation_config, in which `transformers chat` sends its settings."""

import json
from typing import Any

import pytest
from flask.testing import FlaskClient

from inference.types import GenerationRequest
from tests.api.openai.app_requests import CHATS, COMPLETIONS, RESPONSES, body_for, get_response, refusal
from tests.fakes.fake_backend import FakeBackend

PATHS = (COMPLETIONS, CHATS, RESPONSES)
TRANSFORMERS_JSON = """{
  "do_sample": true,
  "eos_token_id": 7,
  "max_new_tokens": 20,
  "pad_token_id": 1,
  "stop_strings": [
    "end"
  ],
  "temperature": 0.5,
  "top_k": 3,
  "transformers_version": "5.23.0"
}
"""  # GenerationConfig(…).to_json_string() of transformers 5.23


@pytest.fixture
def request_of(client: FlaskClient, backend: FakeBackend) -> Any:
    """The request to the model that a body with these fields becomes."""

    def make(path: str, **fields: Any) -> GenerationRequest:
        get_response(client, path, **fields)
        return backend.requests[-1]

    return make


@pytest.mark.parametrize("path", PATHS)
def test_settings_as_transformers_writes_them_are_those_of_the_fields(path: str, request_of: Any) -> None:
    limit = "max_output_tokens" if path == RESPONSES else "max_tokens"
    fields = {limit: 20, "temperature": 0.5, "top_k": 3, "stop_token_ids": [7], "stop": ["end"]}
    assert request_of(path, generation_config=TRANSFORMERS_JSON) == request_of(path, **fields)


def test_an_answer_is_greedy_without_do_sample(request_of: Any) -> None:
    assert request_of(CHATS, generation_config={"temperature": 0.7}).sampling.greedy
    assert not request_of(CHATS, generation_config={"do_sample": True, "temperature": 0.7}).sampling.greedy


def test_fields_of_the_body_have_precedence(request_of: Any) -> None:
    config = json.dumps({"max_new_tokens": 20, "top_k": 3})
    request = request_of(CHATS, generation_config=config, max_completion_tokens=5, top_k=9, temperature=1)
    assert (request.max_tokens, request.sampling.top_k, request.sampling.greedy) == (5, 9, False)


def test_a_setting_without_effect_is_ignored(request_of: Any) -> None:
    neutral = {"num_beams": 1, "length_penalty": 1.0, "use_cache": True, "output_scores": False}
    assert request_of(CHATS, generation_config=neutral) == request_of(CHATS, temperature=0)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"num_beams": 4}, "generation_config: 'num_beams' is not supported"),
        ({"renormalize_logits": True}, "generation_config: 'renormalize_logits' is not supported"),
        ({"top_k": "x"}, "top_k must be `int | null`, got `str`"),
        ("", "generation_config is empty: send a JSON object"),
        ("[]", "generation_config must be `object`, got `array`"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused(client: FlaskClient, config: Any, message: str) -> None:
    response = client.post(CHATS, json=body_for(CHATS, generation_config=config))
    refusal(response, 400, message, "BadRequestError")
