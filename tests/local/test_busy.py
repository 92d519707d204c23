"""The load that a backend reports."""

from typing import Any

import pytest

from inference.engine.background import BackgroundTask, Work
from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.local import BackendModel, LocalBackend
from inference.sampling import Sampling
from inference.types import GenerationRequest
from settings.groups import BackendSettings
from tests.engine.conftest import FakeRunner, GreedySampler
from tests.local.fake_engine import model_metrics

REQUEST = GenerationRequest([3, 4, 5, 6], Sampling(greedy=True), max_tokens=20)
IDLE = (0, 0, 0.0)


@pytest.fixture
def engine() -> Engine:
    """Two rows of at most 64 tokens, 96 in all; the tests drive its steps."""
    runner = FakeRunner(max_sequences=2, context=64, kv_capacity=96)
    return Engine(runner, GreedySampler(), EngineOptions(max_batch_tokens=32, max_queued_tokens=1000))


@pytest.fixture
def backend(engine: Engine, compiler: Any, words: Any) -> LocalBackend:
    ends = frozenset([words.eos_token_id])
    model = BackendModel(id="m", tokenizer=words, context=64, vocab=32, eos_token_ids=ends)
    return LocalBackend(engine, model, BackendSettings(), compiler=compiler, metrics=model_metrics())


def pause() -> Work[None]:
    yield


def busy(backend: LocalBackend) -> tuple[int, int, float]:
    load = backend.current_load()
    return load.running, load.waiting, load.kv_usage


def test_an_idle_backend_is_not_busy(backend: LocalBackend) -> None:
    assert busy(backend) == IDLE


def test_load_counts_answers_and_the_share_of_kv_memory_they_use(
    backend: LocalBackend, engine: Engine
) -> None:
    streams = [backend.generate(REQUEST) for _ in range(3)]
    engine.step()
    assert busy(backend) == (2, 1, 2 * 5 / 96)  # the prompt's four tokens and one more, twice
    stats = engine.stats()
    assert (stats.kv_used, stats.kv_reserved, stats.kv_capacity) == (10, 48, 96)
    for stream in streams:
        stream.close()
    engine.step()
    assert busy(backend) == IDLE


def test_a_background_task_counts_as_running(backend: LocalBackend, engine: Engine) -> None:
    engine.run(BackgroundTask(pause()))
    engine.step()
    assert busy(backend) == (1, 0, 0.0)
    engine.step()
    assert busy(backend) == IDLE
