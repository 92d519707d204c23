"""The time left of a job: from the work that is left, and the speed after the first step."""

import pytest

from tuning.trainer.job.remaining_time import EVALUATION_SHARE, SAVES_AT_EPOCH_END, RemainingTime
from tuning.trainer.job.workload import RemainingWork


def cost(count: float) -> RemainingWork:
    return RemainingWork(count, num_evaluations=0, num_saves=0)


def test_the_first_step_counts_only_until_there_is_another() -> None:
    remaining_time = RemainingTime()
    remaining_time.add_step(100, seconds=9.0)
    assert remaining_time.estimate(cost(1000)) == pytest.approx(90)
    remaining_time.add_step(100, seconds=1.0)
    assert remaining_time.estimate(cost(1000)) == pytest.approx(10)


def test_evaluations_take_their_own_time_once_there_was_one() -> None:
    remaining_time = RemainingTime(valid_cost=1000)
    remaining_time.add_step(100, seconds=1.0)
    work = RemainingWork(500, num_evaluations=3, num_saves=0)
    assert remaining_time.estimate(work) == pytest.approx(5 + 3 * EVALUATION_SHARE * 10)
    remaining_time.evaluation_s = 2.0
    assert remaining_time.estimate(work) == pytest.approx(5 + 3 * 2)


def test_a_save_at_the_end_of_an_epoch_takes_longer_than_that_of_a_state() -> None:
    remaining_time = RemainingTime()
    remaining_time.add_step(100, seconds=1.0)
    remaining_time.add_state(3.0)
    work = RemainingWork(5000, num_evaluations=0, num_saves=2)
    assert remaining_time.estimate(work) == pytest.approx(50 + 2 * 3 * SAVES_AT_EPOCH_END)
    remaining_time.save_s = 5.0
    assert remaining_time.estimate(work) == pytest.approx(50 + 2 * 5)


def test_saves_that_wait_for_one_another_take_their_share_and_the_last_one_all() -> None:
    remaining_time = RemainingTime(max_save_share=0.05)
    remaining_time.add_step(100, seconds=1.0)
    remaining_time.save_s = 4.0
    assert remaining_time.estimate(RemainingWork(20000, 0, num_saves=50)) == pytest.approx(200 + 0.05 * 200)
    assert remaining_time.estimate(RemainingWork(1000, 0, num_saves=50)) == pytest.approx(10 + 4)


def test_nothing_is_left_after_the_last_step() -> None:
    remaining_time = RemainingTime()
    assert remaining_time.estimate(cost(500)) == 0
    remaining_time.add_step(100, seconds=1.0)
    assert remaining_time.estimate(cost(0)) == 0
