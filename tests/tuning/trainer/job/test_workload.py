"""The work that is left of a job: the passes of its own steps, padding included, evaluations and saves."""

from typing import Any

import pytest

from tests.tuning.trainer.conftest import job_spec
from tuning.data.examples import Dataset, Example
from tuning.trainer.job.pass_cost import PassCost
from tuning.trainer.job.schedule import make_schedule
from tuning.trainer.job.training_data import training_data
from tuning.trainer.job.workload import JobWorkload, RemainingWork, make_workload
from tuning.trainer.micro_batches import make_layout

LENGTHS = (2, 2, 4, 10, 20, 20)  # of what the model reads of each row


def workload(
    *, has_evaluations: bool = False, further_cost: float = 0.0, pair: float = 0.0, **values: Any
) -> JobWorkload:
    """Three epochs with two rows a step, in the order of the file."""
    spec = job_spec(**{"shuffle": False, "batch_size": 2, "n_epochs": 3} | values)
    examples = [Example(tuple(range(size + 1)), (1.0,) * (size + 1), 1) for size in LENGTHS]
    data = training_data(Dataset(row_form="chat", examples=examples), "supervised", spec.hyperparameters)
    schedule = make_schedule(len(data), spec.hyperparameters, seed=1)
    return make_workload(
        spec,
        schedule,
        data,
        PassCost(make_layout(spec.hyperparameters, 1), pair=pair),
        has_evaluations=has_evaluations,
        further_cost=further_cost,
    )


def test_short_rows_in_the_first_steps_do_not_promise_a_short_job() -> None:
    job = workload()
    assert [job.after(step).cost for step in (0, 1, 2, 3)] == [192, 188, 168, 128]
    assert workload(n_epochs=1).after(0).cost == 2 * 2 + 2 * 10 + 2 * 20, "padding is computed, too"


def test_a_token_of_a_long_row_costs_more() -> None:
    pairs = 2 * (2**2 + 10**2 + 20**2)
    assert workload(n_epochs=1, pair=0.5).after(0).cost == 64 + 0.5 * pairs


@pytest.mark.parametrize(("values", "tokens"), [({"packing": True}, 58), ({"batch_size": 1}, 58)])
def test_what_is_not_padded_has_the_tokens_of_its_rows(values: dict[str, Any], tokens: int) -> None:
    assert workload(n_epochs=1, **values).after(0).cost == tokens


def test_a_job_that_ends_within_an_epoch_saves_and_evaluates_there() -> None:
    job = workload(max_steps=4, has_evaluations=True)
    assert job.after(1) == RemainingWork(188 - 64 - 60, num_evaluations=2, num_saves=2)
    assert job.after(4) == RemainingWork(0, num_evaluations=0, num_saves=0)


def test_evaluations_have_an_interval_of_their_own() -> None:
    job = workload(has_evaluations=True, eval_steps=2)
    assert [(job.after(step).num_evaluations, job.after(step).num_saves) for step in (0, 3, 9)] == [
        (4, 3),
        (3, 2),
        (0, 0),
    ]


def test_steps_behind_those_that_are_counted_are_like_these(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuning.trainer.job.workload.MAX_COUNTED_ROWS", 1)
    counted = workload(n_epochs=1).after(0).cost
    assert [workload().after(step).cost for step in (0, 6)] == [3 * counted, counted]


def test_every_step_has_the_further_cost() -> None:
    assert workload(further_cost=5).after(7).cost == workload().after(7).cost + 2 * 5
