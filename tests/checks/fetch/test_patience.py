"""How often a thing is tried, and when enough is enough."""

import time
from collections.abc import Callable
from threading import Event

import pytest

from checks.fetch.line import Fault, Signals, Stopped
from checks.fetch.patience import Patience, persist

QUICK = Patience(tries=4, first_s=0.001, longest_s=0.002)


@pytest.fixture
def signals() -> Signals:
    return Signals(Event())


def failing(times: int, then: Callable[[], None] = lambda: None) -> Callable[[], None]:
    """Fails so many times, and does `then` in each."""
    left = iter(range(times))

    def attempt() -> None:
        if next(left, None) is not None:
            then()
            raise Fault("no")

    return attempt


def test_it_is_tried_until_it_works(signals: Signals) -> None:
    persist(failing(3), lambda: 0, QUICK, signals)


def test_so_many_tries_for_nothing_are_enough(signals: Signals) -> None:
    with pytest.raises(Fault):
        persist(failing(4), lambda: 0, QUICK, signals)


def test_a_byte_of_ours_renews_it(signals: Signals) -> None:
    ours = [0]
    persist(failing(40, lambda: ours.append(0)), lambda: len(ours), QUICK, signals)


def test_a_byte_that_others_get_renews_it(signals: Signals) -> None:
    def heard() -> None:
        signals.heard = time.monotonic()

    persist(failing(40, heard), lambda: 0, QUICK, signals)


def test_a_byte_that_others_got_before_does_not(signals: Signals) -> None:
    signals.heard = time.monotonic()
    with pytest.raises(Fault):
        persist(failing(4), lambda: 0, QUICK, signals)


def test_nobody_waits_when_the_work_has_ended(signals: Signals) -> None:
    signals.stop.set()
    begun = time.monotonic()
    with pytest.raises(Stopped):
        persist(failing(1), lambda: 0, Patience(first_s=60), signals)
    assert time.monotonic() - begun < 10


def test_waits_double_up_to_the_longest() -> None:
    patience = Patience(first_s=1, longest_s=8)
    for failures, most in enumerate((1, 2, 4, 8, 8), 1):
        waits = [patience.delay(failures) for _ in range(50)]
        assert most / 2 <= min(waits) < max(waits) <= most
