"""The rows and learning rates of a job's steps."""

import pytest

from tests.tuning.trainer.conftest import job_spec
from tuning.trainer.job.schedule import Schedule, make_schedule


def schedule_of(num_rows: int, seed: int = 0, **changes: object) -> Schedule:
    return make_schedule(num_rows, job_spec(**changes).hyperparameters, seed)  # type: ignore[arg-type]


def test_each_epoch_takes_every_row_once_in_an_order_of_its_own() -> None:
    schedule = schedule_of(11, n_epochs=2, batch_size=2, gradient_accumulation_steps=2)
    assert schedule.num_steps == 6 and schedule.steps_per_epoch == 3
    epochs = [[row for step in steps for row in schedule.rows_of(step)] for steps in (range(3), range(3, 6))]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(11))
    assert epochs[0] != epochs[1]
    assert [len(schedule.rows_of(step)) for step in range(3)] == [4, 4, 3]


def test_the_seed_decides_the_order() -> None:
    assert schedule_of(50, seed=1).rows_of(0) == schedule_of(50, seed=1).rows_of(0)
    assert schedule_of(50, seed=1).rows_of(0) != schedule_of(50, seed=2).rows_of(0)
    assert schedule_of(50, shuffle=False).rows_of(1) == [2, 3]


def test_the_learning_rate_warms_up_and_falls_linearly() -> None:
    schedule = schedule_of(20, n_epochs=1, batch_size=1, learning_rate=1.0, warmup_steps=4)
    rates = [schedule.rate_of(step) for step in range(20)]
    assert rates[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert rates[5:] == pytest.approx([1 - (step - 4) / 16 for step in range(5, 20)])
    assert rates[-1] == pytest.approx(1 / 16)


def test_the_warm_up_is_three_percent_of_all_steps() -> None:
    assert schedule_of(100, n_epochs=2, batch_size=1).warmup_steps == 6
    assert schedule_of(10, n_epochs=1, batch_size=10).warmup_steps == 1


def test_max_steps_ends_the_job_within_an_epoch() -> None:
    schedule = schedule_of(10, n_epochs=5, batch_size=2, max_steps=7)
    assert schedule.num_steps == 7
    assert [step for step in range(7) if schedule.ends_epoch(step)] == [4, 6]
    assert schedule.epoch_of(6) == 1


def test_an_epoch_is_shuffled_once() -> None:
    """100,000 shuffles of these rows would take hours."""
    schedule = schedule_of(100_000, n_epochs=1, batch_size=1)
    assert sorted(row for step in range(schedule.num_steps) for row in schedule.rows_of(step)) == list(
        range(100_000)
    )
