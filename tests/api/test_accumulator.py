"""An answer that its deadline ends, before or after its first token, says so in each dialect."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from inference.events import Finished
from tests.fakes.fake_backend import FakeBackend, say

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
CUT_CHOICE = '"finish_reason":"length","stop_reason":"timeout"'
CUT_DETAILS = '"stop_reason":"timeout"'
PARTIAL_MESSAGE = '"stop_reason":"end_of_message"'
TGI_BODY = {"inputs": "hi", "parameters": {"details": True}}
# Path, body and streaming -> what the end of a cut answer has, and the end of an answer of max_tokens lacks.
CUT_ANSWERS: list[tuple[str, dict[str, Any], str]] = [
    ("/v1/completions", {"prompt": "hi"}, CUT_CHOICE),
    ("/v1/completions", {"prompt": "hi", "stream": True}, CUT_CHOICE),
    ("/v1/chat/completions", {"messages": MESSAGES}, CUT_CHOICE),
    ("/v1/chat/completions", {"messages": MESSAGES, "stream": True}, CUT_CHOICE),
    ("/v1/responses", {"input": "hi"}, '"incomplete_details":{"reason":"timeout"}'),
    ("/v1/responses", {"input": "hi", "stream": True}, '"incomplete_details":{"reason":"timeout"}'),
    ("/inference/completion", {"model": "fake/model", "content": "hi"}, PARTIAL_MESSAGE),
    ("/v1/inference/chat-completion", {"model_id": "fake/model", "messages": MESSAGES}, PARTIAL_MESSAGE),
    ("/generate", TGI_BODY, CUT_DETAILS),
    ("/generate_stream", TGI_BODY, CUT_DETAILS),
    ("/generate", {"prompt": "hi", "generated_tokens_count": 4, "max_total_tokens": 64}, CUT_DETAILS),
]


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


@pytest.mark.parametrize(("path", "body", "cut_mark"), CUT_ANSWERS)
def test_an_answer_cut_by_its_deadline_differs_from_one_of_max_tokens(
    client: FlaskClient, backend: FakeBackend, path: str, body: dict[str, Any], cut_mark: str
) -> None:
    for reason, is_cut in (("deadline", True), ("length", False)):
        backend.script = say("a", reason=reason)
        response = client.post(path, json=body)
        assert response.status_code == 200, response.text
        assert (cut_mark in response.text) == is_cut
