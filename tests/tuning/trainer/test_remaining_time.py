"""The time left of a job: from the tokens of its dataset, and the speed after the first step."""

import pytest

from tuning.trainer.remaining_time import EVALUATION_SHARE, RemainingTime


def test_the_first_step_counts_only_until_there_is_another() -> None:
    remaining_time = RemainingTime(mean_step_tokens=100)
    remaining_time.add_step(100, seconds=9.0)
    assert remaining_time.estimate(10, 0) == pytest.approx(90)
    remaining_time.add_step(100, seconds=1.0)
    assert remaining_time.estimate(10, 0) == pytest.approx(10)


def test_short_rows_in_the_first_steps_do_not_promise_a_short_job() -> None:
    remaining_time = RemainingTime(mean_step_tokens=400)
    for _ in range(3):
        remaining_time.add_step(100, seconds=1.0)
    assert remaining_time.estimate(10, 0) == pytest.approx(40)


def test_pauses_are_part_of_the_rest_by_their_own_time_once_there_was_one() -> None:
    remaining_time = RemainingTime(mean_step_tokens=100, valid_tokens=1000)
    for _ in range(2):
        remaining_time.add_step(100, seconds=1.0)
    assert remaining_time.estimate(0, 3) == pytest.approx(3 * EVALUATION_SHARE * 10)
    remaining_time.add_pause(seconds=2.0)
    assert remaining_time.estimate(5, 3) == pytest.approx(5 + 3 * 2)


def test_saving_is_part_of_a_pause_before_the_first_one() -> None:
    remaining_time = RemainingTime(mean_step_tokens=100)
    remaining_time.add_step(100, seconds=1.0)
    remaining_time.save_s = 3.0
    assert remaining_time.estimate(0, 2) == pytest.approx(2 * 4.0)
    remaining_time.add_pause(seconds=2.0)
    assert remaining_time.estimate(0, 2) == pytest.approx(2 * 2.0)


def test_nothing_is_left_after_the_last_step() -> None:
    remaining_time = RemainingTime(mean_step_tokens=100)
    assert remaining_time.estimate(5, 0) == 0
    remaining_time.add_step(100, seconds=1.0)
    assert remaining_time.estimate(0, 0) == 0
