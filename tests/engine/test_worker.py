"""The worker does one thing after the other, all on one thread, and goes on behind what failed."""

import threading

import pytest

from inference.engine.worker import Worker


def test_all_is_done_on_one_thread_that_is_not_the_callers() -> None:
    worker = Worker("test")
    threads = {worker.do(threading.get_ident) for _ in range(3)}
    assert len(threads) == 1 and threads != {threading.get_ident()}


def test_what_is_begun_is_done_in_order_and_nobody_waits() -> None:
    worker, gate, done = Worker("test"), threading.Event(), list[int]()
    first = worker.begin(lambda: gate.wait(10) and done.append(1))
    second = worker.begin(lambda: done.append(2))
    assert not done
    gate.set()
    first.result(10), second.result(10)
    assert done == [1, 2]


def test_what_is_raised_goes_to_whoever_asked() -> None:
    worker = Worker("test")
    with pytest.raises(ZeroDivisionError):
        worker.do(lambda: 1 / 0)
    assert worker.do(lambda: "goes on") == "goes on"
