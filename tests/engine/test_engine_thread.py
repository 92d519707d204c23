"""The engine thread runs one function after another, on one thread, and continues after a failure."""

import threading

import pytest

from inference.engine.engine_thread import EngineThread


def test_all_work_is_done_on_one_thread_that_is_not_the_callers() -> None:
    worker = EngineThread("test")
    threads = {worker.run(threading.get_ident) for _ in range(3)}
    assert len(threads) == 1 and threads != {threading.get_ident()}


def test_submitted_work_is_done_in_order_and_without_waiting() -> None:
    worker, gate, done = EngineThread("test"), threading.Event(), list[int]()
    first = worker.submit(lambda: gate.wait(10) and done.append(1))
    second = worker.submit(lambda: done.append(2))
    assert not done
    gate.set()
    first.result(10), second.result(10)
    assert done == [1, 2]


def test_an_exception_goes_to_the_caller() -> None:
    worker = EngineThread("test")
    with pytest.raises(ZeroDivisionError):
        worker.run(lambda: 1 / 0)
    assert worker.run(lambda: "goes on") == "goes on"
