"""How much may wait."""

import threading

import pytest

from inference.engine.gate import LONGEST_S, Gate
from inference.errors import Overloaded, Unavailable


def enter(gate: Gate, id: int, tokens: int) -> None:
    with gate.enter({id: tokens}):
        pass


def test_what_exceeds_the_limit_is_refused() -> None:
    gate = Gate(100)
    enter(gate, 1, 60)
    with pytest.raises(Overloaded):
        enter(gate, 2, 41)
    enter(gate, 3, 40)
    assert gate.waiting == 100


def test_a_prompt_larger_than_the_limit_enters_when_nothing_waits() -> None:
    gate = Gate(100)
    enter(gate, 1, 500)
    with pytest.raises(Overloaded):
        enter(gate, 2, 1)


def test_leaving_makes_room_once() -> None:
    gate = Gate(100)
    enter(gate, 1, 100)
    assert gate.leave(1) and not gate.leave(1)
    assert gate.waiting == 0


def test_the_advised_wait_follows_the_rate_of_draining() -> None:
    gate = Gate(1000)
    for id in range(10):
        enter(gate, id, 100)
    for id in range(5):
        gate.leave(id)
    enter(gate, 10, 500)
    waits = []
    for excess in (1, 1000, 10**9):
        with pytest.raises(Overloaded) as refused:
            enter(gate, 11, excess)
        waits.append(refused.value.retry_after)
    assert waits[0] == 1 and 1.9 < waits[1] < 2.1 and waits[2] == LONGEST_S


def test_nobody_enters_a_closed_gate_and_the_first_reason_stands() -> None:
    gate = Gate(100)
    gate.close("stopped")
    gate.close("stopped again")
    with pytest.raises(Unavailable, match=r"^stopped$"):
        enter(gate, 1, 1)


def test_the_limit_is_exact_under_many_threads() -> None:
    gate, entered = Gate(1000), []

    def crowd(start: int) -> None:
        for id in range(start, start + 200):
            try:
                enter(gate, id, 7)
                entered.append(id)
            except Overloaded:
                pass

    threads = [threading.Thread(target=crowd, args=(n * 200,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(entered) == 1000 // 7 and gate.waiting == 7 * len(entered)
