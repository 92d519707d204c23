"""The engine thread runs one function after another, on one thread, and continues after a failure."""

import threading
import time
from collections.abc import Callable

import pytest
import torch

from inference.engine.engine import Engine
from inference.engine.engine_thread import EngineThread
from inference.engine.options import EngineOptions
from inference.model.batch import Batch
from tests.engine.conftest import FakeRunner, GreedySampler, RecordingSink
from tests.engine.generation_requests import make_request
from tests.timeouts import TIMEOUT_S


def test_all_work_is_done_on_one_thread_that_is_not_the_callers() -> None:
    worker = EngineThread("test")
    threads = {worker.run(threading.get_ident) for _ in range(3)}
    assert len(threads) == 1 and threads != {threading.get_ident()}


def test_submitted_work_is_done_in_order_and_without_waiting() -> None:
    worker, gate, done = EngineThread("test"), threading.Event(), list[int]()
    first = worker.submit(lambda: gate.wait(TIMEOUT_S) and done.append(1))
    second = worker.submit(lambda: done.append(2))
    assert not done
    gate.set()
    first.result(TIMEOUT_S), second.result(TIMEOUT_S)
    assert done == [1, 2]


def test_an_exception_goes_to_the_caller() -> None:
    worker = EngineThread("test")
    with pytest.raises(ZeroDivisionError):
        worker.run(lambda: 1 / 0)
    assert worker.run(lambda: "goes on") == "goes on"


class Countdown:
    """Stands in for an engine with a number of steps to do."""

    def __init__(self, name: str, num_steps: int, turns: list[str]) -> None:
        self.name, self.num_steps, self.turns = name, num_steps, turns

    def take_turn(self) -> bool:
        if self.num_steps:
            self.num_steps -= 1
            self.turns.append(self.name)
        return self.num_steps > 0


def test_engines_take_turns_while_they_have_work() -> None:
    worker, turns = EngineThread("test"), list[str]()
    first, second = Countdown("first", 3, turns), Countdown("second", 1, turns)
    worker.attach(first)
    worker.attach(second)
    worker.run(lambda: None)
    wait_until(lambda: not first.num_steps)
    second.num_steps = 2
    worker.wake()
    wait_until(lambda: not second.num_steps)
    assert sorted(turns) == ["first"] * 3 + ["second"] * 3 and turns.index("second") < 3


def test_functions_run_between_the_turns_of_a_busy_engine_and_outside_of_inference_mode() -> None:
    worker, turns = EngineThread("test"), list[str]()
    busy = Countdown("busy", 10**9, turns)
    worker.attach(busy)
    wait_until(lambda: len(turns) > 2)
    assert worker.run(torch.is_inference_mode_enabled) is False
    assert busy.num_steps > 0
    worker.run(lambda: worker.detach(busy))


def wait_until(is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not is_done():
        assert time.monotonic() < deadline, "the thread has not done its work"
        time.sleep(0.001)


def make_engine() -> Engine:
    return Engine(FakeRunner(), GreedySampler(), EngineOptions(max_batch_tokens=32, max_queued_tokens=1_000))


def test_two_engines_share_a_thread_and_one_fails_or_stops_without_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker, sound, failing = EngineThread("test"), make_engine(), make_engine()
    sinks = {engine: [RecordingSink() for _ in range(3)] for engine in (sound, failing)}
    for engine, of_engine in sinks.items():
        engine.start(worker)
        engine.submit([make_request((3, 4), 40), make_request((5,), 40)], of_engine[:2])
    monkeypatch.setattr(failing.core.scheduler.limits, "record_success", None, raising=False)
    failing.submit([make_request((6,), 40)], sinks[failing][2:])
    wait_until(lambda: failing.closed_reason and all(sink.has_ended for sink in sinks[failing]))
    sound.submit([make_request((6,), 40)], sinks[sound][2:])
    wait_until(lambda: all(sink.has_ended for sink in sinks[sound]))
    assert {sink.finish_reason for sink in sinks[sound]} <= {"length", "stop"}
    assert not sound.closed_reason and "restarted" in failing.closed_reason
    failing.stop()
    sound.stop()
    assert sound.closed_reason == "the server is shutting down"
    assert worker.run(threading.get_ident) != threading.get_ident()


class Panic(BaseException):
    """As libraries written in Rust raise it: no Exception."""


def test_a_panic_during_a_step_ends_the_engines_requests_and_not_the_thread() -> None:
    def panic(batch: Batch, moved: bool) -> None:
        raise Panic("from a library")

    worker, sink = EngineThread("test"), RecordingSink()
    engine = Engine(
        FakeRunner(on_forward=panic),
        GreedySampler(),
        EngineOptions(max_batch_tokens=32, max_queued_tokens=1_000),
    )
    engine.start(worker)
    engine.submit([make_request((3, 4), 40)], [sink])
    wait_until(lambda: sink.has_ended)
    assert "restarted" in engine.closed_reason
    assert worker.submit(lambda: "goes on").result(TIMEOUT_S) == "goes on"
