"""Fixtures of the tests of remote backends: an event loop, a fake upstream, and what opens a model of it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from inference.backend import Backend
from inference.metrics.upstream import UpstreamMetrics
from inference.remote import attempts
from inference.remote.detect import Detected
from inference.remote.open import open_model
from inference.remote.upstreams.gradio.functions import GradioFunctions
from inference.types import Message
from settings.model_list import parse_entry
from settings.remote_model import RemoteModel, Timeouts
from tests.remote.fake_upstream import AdvancingLoop, FakeUpstream, running_loop, start

OpenModel = Callable[..., Backend]

CHAT = (Message("user", "hi"),)


@pytest.fixture(scope="module")
def loop() -> Iterator[AdvancingLoop]:
    with running_loop() as loop:
        yield loop


@pytest.fixture
def upstream(loop: AdvancingLoop) -> Iterator[FakeUpstream]:
    upstream = FakeUpstream()
    server = start(upstream, loop)
    yield upstream
    loop.call_soon_threadsafe(server.close)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def open_upstream(
    upstream: FakeUpstream,
    loop: AdvancingLoop,
    registry: CollectorRegistry,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[OpenModel]:
    """Opens a model of the fake upstream: open_upstream(kind, **keys of an entry). Retries are quick.

    functions: of a gradio server
    """
    metrics = UpstreamMetrics(registry)
    backends: list[Backend] = []
    monkeypatch.setattr(attempts, "FIRST_DELAY_S", 0.01)

    def open_backend(
        kind: str = "vllm_chat",
        detected: str = "",
        functions: GradioFunctions | None = None,
        max_answer_tokens: int = 0,
        **keys: Any,
    ) -> Backend:
        prefix = f"{kind}:" if kind else ""
        entry = {
            "base_model": "up/model",
            "inference_server": f"{prefix}{upstream.url}/v1",
        }
        model = parse_entry(1, entry | keys)
        assert isinstance(model, RemoteModel) and isinstance(model.timeouts, Timeouts)
        model = model.with_defaults(max_answer_tokens=max_answer_tokens)
        details = {"functions": functions} if functions else {}
        described = Detected(detected or None, ("up/model",), details=details)
        backend = open_model(model, [described] * (1 + len(model.others)), metrics).backend
        backend.attach(loop)
        backends.append(backend)
        return backend

    yield open_backend
    for backend in backends:
        backend.close()
