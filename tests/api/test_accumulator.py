"""An answer whose deadline passes before it starts has an end and no tokens."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from inference.types import Finished
from tests.fake_backend import FakeBackend

MESSAGES = [{"role": "user", "content": "hi"}]
USED = {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
KINDS: dict[str, dict[str, Any]] = {
    "/inference/completion": {"model": "fake/model", "content": "hi", "logprobs": {"top_k": 1}},
    "/v1/inference/chat-completion": {"model_id": "fake/model", "messages": MESSAGES},
    "/v1/completions": {"prompt": "hi", "echo": True, "logprobs": 1, "prompt_logprobs": 1},
    "/v1/chat/completions": {"messages": MESSAGES, "prompt_logprobs": 1},
    "/v1/responses": {"input": "hi"},
    "/generate": {"inputs": "hi", "parameters": {"details": True, "decoder_input_details": True}},
}
STREAMED: dict[str, dict[str, Any]] = {
    "/v1/inference/chat-completion": {"model_id": "fake/model", "messages": MESSAGES, "stream": True},
    "/v1/completions": {"prompt": "hi", "logprobs": 1, **USED},
    "/v1/chat/completions": {"messages": MESSAGES, **USED},
    "/generate_stream": {"inputs": "hi", "parameters": {"details": True}},
}


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend([Finished(0, "deadline")])


@pytest.mark.parametrize("path", KINDS)
def test_an_answer_past_its_deadline_is_returned_whole(client: FlaskClient, path: str) -> None:
    response = client.post(path, json=KINDS[path])
    assert response.status_code == 200, response.text
    assert any(word in response.text for word in ("length", "end_of_message", "incomplete"))


@pytest.mark.parametrize("path", STREAMED)
def test_an_answer_past_its_deadline_is_streamed(client: FlaskClient, path: str) -> None:
    response = client.post(path, json=STREAMED[path])
    assert response.status_code == 200 and '"error":{' not in response.text, response.text
    assert any(word in response.text for word in ("length", "end_of_message"))
