"""Refused clients are told the time that follows from what drained during the last seconds."""

import pytest

from inference import drain_rate
from inference.drain_rate import MAX_RETRY_S, MIN_RETRY_S, DrainRate, RecentDurations, StepTime, overloaded
from tests.fakes.stepped_clock import SteppedClock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SteppedClock:
    """The time, which the test sets."""
    clock = SteppedClock()
    clock.now = 100.0
    monkeypatch.setattr(drain_rate, "time", clock)
    return clock


def test_the_wait_follows_the_rate(clock: SteppedClock) -> None:
    rate = DrainRate()
    for clock.now in (100.0, 102.0, 104.0):
        rate.record(10)
    clock.now = 106.0
    assert rate.seconds_for(10) == pytest.approx(2.0)
    assert rate.seconds_for(50) == pytest.approx(10.0)


def test_what_drained_long_ago_does_not_count(clock: SteppedClock) -> None:
    rate = DrainRate(unknown_s=7.0)
    assert rate.seconds_for(1) == 7.0
    rate.record(1000)
    clock.now += drain_rate.WINDOW_S + 1
    assert rate.seconds_for(1) == 7.0


@pytest.mark.parametrize(
    ("estimate_s", "drained_s", "seconds"),
    [(None, 5.0, 5.0), (3.0, 5.0, 3.0), (0.0, 5.0, MIN_RETRY_S), (1e9, 5.0, MAX_RETRY_S)],
)
def test_an_estimate_prevails_over_the_rate(
    estimate_s: float | None, drained_s: float, seconds: float
) -> None:
    assert overloaded(estimate_s, drained_s).retry_after == seconds


def test_the_first_end_follows_from_how_long_similar_work_took(clock: SteppedClock) -> None:
    durations = RecentDurations()
    for seconds in (8.0, 12.0):
        durations.record(seconds)
    assert durations.mean_s == 10.0
    assert durations.first_end_s([95.0]) == 5.0, "it has 3 or 7 s left"
    assert durations.first_end_s([95.0, 95.0]) == 3.0, "one of two is likely to be the shorter"
    assert durations.first_end_s([90.0]) == 2.0, "it has outlasted the shorter one"
    assert durations.first_end_s([]) == 0.0


def test_work_that_outlasts_all_earlier_work_does_so_by_as_much_again(clock: SteppedClock) -> None:
    durations = RecentDurations(unknown_s=20.0)
    assert durations.mean_s == 20.0
    assert durations.first_end_s([70.0, 96.0]) == 10.0, "the elder one was expected to end 10 s ago"
    durations.record(3.0)
    assert durations.first_end_s([70.0]) == 27.0
    assert durations.first_end_s([96.9]) == pytest.approx(0.1), "it is hardly late"


def test_the_time_of_a_step_is_a_mean_of_the_last_seconds() -> None:
    step_time = StepTime()
    assert step_time.seconds == 0.0
    for seconds in [0.1] * 200 + [0.2] * 100:
        step_time.record(1, seconds)
    assert step_time.seconds == pytest.approx(0.2, rel=0.01)
