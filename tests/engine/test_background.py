"""Background tasks: one step per engine step; results and errors reach only their callers."""

import threading
from collections.abc import Callable, Iterator

import pytest

from inference.engine.background import MAX_INTERLEAVED, BackgroundQueue, BackgroundTask, Work
from inference.engine.engine import Engine
from inference.engine.options import EngineOptions
from inference.errors import BadRequest, Internal, Unavailable
from tests.engine.conftest import Bench, FakeRunner, GreedySampler
from tests.fakes.stepped_clock import SteppedClock
from tests.timeouts import TIMEOUT_S

Make = Callable[..., Bench]


def counting(steps: int, events: list[str], name: str = "a") -> Work[str]:
    """Appends its name at each step, and "<name> over" when it ends."""
    try:
        for _ in range(steps):
            events.append(name)
            yield
    finally:
        events.append(f"{name} over")
    return name


def failing(error: Exception) -> Work[None]:
    yield
    raise error


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine(FakeRunner(), GreedySampler(), EngineOptions(max_batch_tokens=32, max_queued_tokens=1000))
    engine.start()
    yield engine
    engine.stop()


def test_a_background_task_takes_one_step_per_engine_step_while_sequences_run(
    make_bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, events = make_bench(), []
    bench.probe.set_clock(monkeypatch, SteppedClock())  # a step that takes no time is followed by another
    sink = bench.submit([3, 4, 5], 8)
    future = bench.engine.run(BackgroundTask(counting(5, events)))
    for turn in range(1, 6):
        bench.step()
        assert len(sink.token_ids) == turn == len(events)
    bench.run_until_idle()
    assert future.result(0) == "a" and sink.token_ids == bench.expected_ids([3, 4, 5], 8)


def test_sequences_get_as_much_time_as_background_steps() -> None:
    now = 0.0

    def slow() -> Work[None]:
        nonlocal now
        while True:
            now += 5.0
            yield

    queue = BackgroundQueue(clock=lambda: now)
    queue.add(BackgroundTask(slow()))
    for at, shares, then in ((0, True, 5), (5, True, 5), (9, True, 9), (10, True, 15), (16, False, 21)):
        now = at
        queue.step(shares)
        assert now == then


def test_background_tasks_take_turns_up_to_the_interleaving_limit(make_bench: Make) -> None:
    bench, events = make_bench(), []
    for name in range(MAX_INTERLEAVED + 1):
        bench.engine.run(BackgroundTask(counting(2, events, str(name))))
    bench.run_until_idle()
    first = [str(name) for name in range(MAX_INTERLEAVED)]
    assert events[:MAX_INTERLEAVED] == first
    assert events.index(str(MAX_INTERLEAVED)) > events.index("0 over")


def test_a_background_task_wakes_an_idle_engine_and_runs_on_its_thread(engine: Engine) -> None:
    def work() -> Work[str]:
        yield
        return threading.current_thread().name

    assert engine.run(BackgroundTask(work())).result(TIMEOUT_S) == "engine"


def test_an_error_reaches_only_its_caller(make_bench: Make) -> None:
    bench = make_bench()
    sink = bench.submit([3, 4, 5], 8)
    refused = bench.engine.run(BackgroundTask(failing(BadRequest("input", "is empty"))))
    broken = bench.engine.run(BackgroundTask(failing(ZeroDivisionError())))
    bench.run_until_idle()
    assert isinstance(refused.exception(0), BadRequest)
    assert isinstance(broken.exception(0), Internal)
    assert sink.token_ids == bench.expected_ids([3, 4, 5], 8) and not bench.engine.closed_reason


def test_a_background_task_too_large_for_the_memory_fails_alone(make_bench: Make) -> None:
    bench = make_bench()
    future = bench.engine.run(BackgroundTask(failing(MemoryError())))
    bench.run_until_idle()
    assert "memory" in str(future.exception(0)) and not bench.engine.closed_reason


def test_a_cancelled_background_task_takes_no_further_step(make_bench: Make) -> None:
    bench, events, over = make_bench(), [], []
    future = bench.engine.run(
        BackgroundTask(counting(9, events), on_done=lambda future: over.append(future.cancelled()))
    )
    bench.step()
    future.cancel()
    bench.run_until_idle()
    assert events == ["a", "a over"] and over == [True]


def test_stopping_ends_background_tasks_running_and_waiting(make_bench: Make) -> None:
    bench, events, over = make_bench(), [], []
    running = bench.engine.run(BackgroundTask(counting(9, events), on_done=over.append))
    bench.step()
    waiting = bench.engine.run(BackgroundTask(counting(9, events), on_done=over.append))
    bench.engine.stop()
    assert isinstance(running.exception(0), Unavailable) and isinstance(waiting.exception(0), Unavailable)
    assert events == ["a", "a over"] and over == [running, waiting]
    with pytest.raises(Unavailable):
        bench.engine.run(BackgroundTask(counting(1, events)))
