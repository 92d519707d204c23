"""An app that answers one request at a time, and a body for each route that generates."""

from typing import Any

from flask import Flask
from werkzeug.test import TestResponse

from api import create_app
from inference.models import ModelEntry, Models
from settings.groups import ServerSettings
from tests.fakes.fake_backend import FakeBackend

COMPLETION = {"model": "fake/model", "content": "hi"}
BATCH = {"model": "fake/model", "content_batch": ["a", "b", "c"]}
STREAM = {"prompt": "hi", "stream": True}
NEODIM = {"prompt": "hi", "generated_tokens_count": 2, "max_total_tokens": 64}
CHAT = {"messages": [{"role": "user", "content": "hi"}]}
GENERATING: dict[str, dict[str, Any]] = {
    "/v1/completions": {"prompt": ["a", "b"]},
    "/v1/chat/completions": CHAT,
    "/v1/responses": {"input": "hi"},
    "/v1/embeddings": {"input": "hi"},
    "/invocations": CHAT,
    "/": {"inputs": "hi"},
    "/vertex": {"instances": [{"inputs": "a"}, {"inputs": "b"}]},
    "/generate": {"inputs": "hi"},
    "/generate ": NEODIM,
    "/inference/completion": COMPLETION,
    "/inference/chat_completion": {"model": "fake/model", **CHAT},
    "/v1/inference/batch-completion": BATCH,
    "/v1/inference/embeddings": {"model": "fake/model", "contents": ["a"]},
}


def narrow_app(*backends: FakeBackend) -> Flask:
    entries = [ModelEntry(backend, (backend.model_id,)) for backend in backends]
    return create_app(Models(*entries), ServerSettings(max_concurrent_requests=1))


def post(app: Flask, path: str, body: dict[str, Any]) -> TestResponse:
    return app.test_client().post(path.strip(), json=body)
