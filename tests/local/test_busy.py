"""How busy a backend says it is."""

from typing import Any

import pytest

from inference.engine.engine import Engine
from inference.engine.errand import Errand, Work
from inference.local import LocalBackend
from inference.metrics import Metrics
from inference.sampling import Sampling
from inference.types import GenerationRequest
from tests.engine.conftest import FakeRunner, GreedySampler

ASKED = GenerationRequest([3, 4, 5, 6], Sampling(greedy=True), max_tokens=20)
IDLE = (0, 0, 0.0)


@pytest.fixture
def engine() -> Engine:
    """Two rows of at most 64 tokens, 96 in all; driven by the test."""
    runner = FakeRunner(max_rows=2, context=64, area=96)
    return Engine(runner, GreedySampler(), max_batch_tokens=32, max_queued_tokens=1000)


@pytest.fixture
def backend(engine: Engine, compiler: Any, words: Any) -> LocalBackend:
    ends = frozenset([words.eos_token_id])
    return LocalBackend(
        engine, words, model_id="m", context=64, vocab=32, ends=ends, compiler=compiler, metrics=Metrics()
    )


def pause() -> Work[None]:
    yield


def busy(backend: LocalBackend) -> tuple[int, int, float]:
    load = backend.load()
    return load.running, load.waiting, load.used


def test_an_idle_backend_is_not_busy(backend: LocalBackend) -> None:
    assert busy(backend) == IDLE


def test_it_counts_answers_and_the_share_of_its_room_they_take(backend: LocalBackend, engine: Engine) -> None:
    streams = [backend.generate(ASKED) for _ in range(3)]
    engine.step()
    assert busy(backend) == (2, 1, 2 * 5 / 96)  # the prompt's four tokens and one more, twice
    stats = engine.stats()
    assert (stats.held, stats.reach, stats.room) == (10, 48, 96)
    for stream in streams:
        stream.close()
    engine.step()
    assert busy(backend) == IDLE


def test_an_errand_counts_as_running(backend: LocalBackend, engine: Engine) -> None:
    engine.run(Errand(pause()))
    engine.step()
    assert busy(backend) == (1, 0, 0.0)
    engine.step()
    assert busy(backend) == IDLE
