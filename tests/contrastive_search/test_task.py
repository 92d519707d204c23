"""Contrastive search as the engine sees it: one background task that sends its outputs to several sinks."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from inference.contrastive_search.task import start_contrastive_search
from inference.engine.background import MAX_INTERLEAVED
from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.errors import BadRequest, Internal, Overloaded, ServerError
from inference.sampling import Sampling
from tests.engine.conftest import FakeRunner, GreedySampler, RecordingSink
from tests.engine.generation_requests import make_request

CONTRASTIVE = Sampling(greedy=True, penalty_alpha=0.6, top_k=4)


@pytest.fixture
def engine() -> Engine:
    """The tests drive its steps."""
    return Engine(FakeRunner(), GreedySampler(), EngineOptions(max_batch_tokens=32, max_queued_tokens=10))


def count_up(*_: Any, **__: Any) -> Iterator[int]:
    yield from range(1, 1000)


def fail_with(error: ServerError) -> Any:
    def generate(*_: Any, **__: Any) -> Iterator[int]:
        raise error
        yield

    return generate


def search(
    engine: Engine, *sinks: RecordingSink, generate: Any = count_up, max_tokens: int = 5, **options: Any
) -> Callable[[Iterable[int]], None]:
    request = make_request((3, 4), max_tokens, CONTRASTIVE, **options)
    return start_contrastive_search(engine, generate, request, None, sinks)


def test_every_sink_gets_the_answer(engine: Engine) -> None:
    sinks = [RecordingSink(), RecordingSink()]
    search(engine, *sinks)
    engine.run_until_idle()
    assert [sink.token_ids for sink in sinks] == [[1, 2, 3, 4, 5]] * 2
    assert engine.stats().finished_by_reason["length"] == 2 and engine.stats().generated_tokens == 10


def test_an_aborted_answer_counts_as_cancelled_and_the_others_go_on(engine: Engine) -> None:
    aborted, others = RecordingSink(), [RecordingSink(), RecordingSink()]
    abort = search(engine, aborted, *others)
    engine.step()
    abort([0])
    engine.run_until_idle()
    assert aborted.token_ids == [1] and [sink.token_ids for sink in others] == [[1, 2, 3, 4, 5]] * 2
    finished = engine.stats().finished_by_reason
    assert (finished["cancelled"], finished["length"]) == (1, 2)


def test_the_search_ends_when_all_answers_are_aborted(engine: Engine) -> None:
    sinks = [RecordingSink(), RecordingSink()]
    abort = search(engine, *sinks)
    engine.step()
    abort([0])
    abort([0, 1])
    engine.run_until_idle()
    assert [sink.token_ids for sink in sinks] == [[1]] * 2
    assert engine.stats().finished_by_reason["cancelled"] == 2


@pytest.mark.parametrize(("error", "num_failures"), [(BadRequest("", "no token"), 0), (Internal("nan"), 3)])
def test_only_internal_errors_count_as_failures(
    engine: Engine, error: ServerError, num_failures: int
) -> None:
    sinks = [RecordingSink() for _ in range(3)]
    for sink in sinks:
        search(engine, sink, generate=fail_with(error))
        engine.run_until_idle()
    assert [sink.outputs[-1].error for sink in sinks] == [error] * 3
    assert engine.stats().finished_by_reason["error"] == 3
    assert engine.consecutive_failures == num_failures


def test_a_search_that_waits_for_its_turn_ends_at_its_deadline(engine: Engine) -> None:
    for _ in range(MAX_INTERLEAVED):
        search(engine, RecordingSink(), max_tokens=50)
        engine.step()
    sink = RecordingSink()
    search(engine, sink, deadline=-1.0)
    engine.step()
    assert sink.finish_reason == "deadline" and not sink.token_ids


def test_searches_that_wait_count_towards_the_queue_limit(engine: Engine) -> None:
    aborts = [search(engine, RecordingSink()) for _ in range(5)]
    assert engine.stats().waiting_tokens == 10
    with pytest.raises(Overloaded):
        search(engine, RecordingSink())
    aborts[-1]([0])
    engine.run_until_idle()
    assert engine.stats().waiting_tokens == 0
