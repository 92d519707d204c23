"""Work that is no sequence: a step a turn, its result to its caller, its failure its own."""

import threading
from collections.abc import Callable, Iterator

import pytest

from inference.engine.engine import Engine
from inference.engine.errand import ABREAST, Errand, Errands, Work
from inference.errors import BadRequest, Internal, Unavailable
from tests.engine.conftest import Bench, FakeRunner, GreedySampler

Make = Callable[..., Bench]


def counting(steps: int, seen: list[str], name: str = "a") -> Work[str]:
    """Notes its name at each step, and how it ended."""
    try:
        for _ in range(steps):
            seen.append(name)
            yield
    finally:
        seen.append(f"{name} over")
    return name


def failing(error: Exception) -> Work[None]:
    yield
    raise error


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine(FakeRunner(), GreedySampler(), max_batch_tokens=32, max_queued_tokens=1000)
    engine.start()
    yield engine
    engine.stop()


def test_an_errand_takes_a_step_a_turn_while_sequences_go_on(bench: Make) -> None:
    one, seen = bench(), []
    box = one.submit([3, 4, 5], 8)
    future = one.engine.run(Errand(counting(5, seen)))
    for turn in range(1, 6):
        one.step()
        assert len(box.ids) == turn == len(seen)
    one.finish()
    assert future.result(0) == "a" and box.ids == one.alone([3, 4, 5], 8)


def test_others_have_the_thread_for_as_long_as_a_step_took() -> None:
    now = 0.0

    def slow() -> Work[None]:
        nonlocal now
        while True:
            now += 5.0
            yield

    errands = Errands(clock=lambda: now)
    errands.enter(Errand(slow()))
    for at, shares, then in ((0, True, 5), (5, True, 5), (9, True, 9), (10, True, 15), (16, False, 21)):
        now = at
        errands.turn(shares)
        assert now == then


def test_errands_take_turns_so_many_abreast(bench: Make) -> None:
    one, seen = bench(), []
    for name in range(ABREAST + 1):
        one.engine.run(Errand(counting(2, seen, str(name))))
    one.finish()
    first = [str(name) for name in range(ABREAST)]
    assert seen[:ABREAST] == first
    assert seen.index(str(ABREAST)) > seen.index("0 over")


def test_an_errand_wakes_an_idle_engine_and_runs_on_its_thread(engine: Engine) -> None:
    def work() -> Work[str]:
        yield
        return threading.current_thread().name

    assert engine.run(Errand(work())).result(10) == "engine"


def test_an_error_is_the_callers_own(bench: Make) -> None:
    one = bench()
    box = one.submit([3, 4, 5], 8)
    refused = one.engine.run(Errand(failing(BadRequest("input", "is empty"))))
    broken = one.engine.run(Errand(failing(ZeroDivisionError())))
    one.finish()
    assert isinstance(refused.exception(0), BadRequest)
    assert isinstance(broken.exception(0), Internal)
    assert box.ids == one.alone([3, 4, 5], 8) and not one.engine.reason


def test_an_errand_too_large_for_the_memory_fails_alone(bench: Make) -> None:
    one = bench()
    future = one.engine.run(Errand(failing(MemoryError())))
    one.finish()
    assert "memory" in str(future.exception(0)) and not one.engine.reason


def test_a_cancelled_errand_takes_no_further_step(bench: Make) -> None:
    one, seen, over = bench(), [], []
    future = one.engine.run(Errand(counting(9, seen), over=lambda future: over.append(future.cancelled())))
    one.step()
    future.cancel()
    one.finish()
    assert seen == ["a", "a over"] and over == [True]


def test_stopping_ends_errands_begun_and_waiting(bench: Make) -> None:
    one, seen, over = bench(), [], []
    begun = one.engine.run(Errand(counting(9, seen), over=over.append))
    one.step()
    waiting = one.engine.run(Errand(counting(9, seen), over=over.append))
    one.engine.stop()
    assert isinstance(begun.exception(0), Unavailable) and isinstance(waiting.exception(0), Unavailable)
    assert seen == ["a", "a over"] and over == [begun, waiting]
    with pytest.raises(Unavailable):
        one.engine.run(Errand(counting(1, seen)))
