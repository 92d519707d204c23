"""The work of a job that its schedule foresees: passes, evaluations and saves.

Knows data and numbers of steps; no seconds and no model.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from tuning.trainer.datum import Datum
from tuning.trainer.job.pass_cost import PassCost
from tuning.trainer.job.schedule import Schedule
from tuning.trainer.job.training_data import TrainingData
from tuning.types import JobSpec

MAX_COUNTED_ROWS = 200_000  # a few seconds


@dataclass(frozen=True, slots=True)
class RemainingWork:
    """cost: of training passes, see PassCost."""

    cost: float
    num_evaluations: int
    num_saves: int


class JobWorkload:
    """The work of a whole job. Steps behind MAX_COUNTED_ROWS rows are taken to be like those before.

    has_evaluations  whether there is a validation file
    eval_steps       steps between two evaluations; 0: one at the end of each epoch
    further_cost     of each step, beside that of its rows
    """

    def __init__(
        self,
        schedule: Schedule,
        training_data: TrainingData,
        pass_cost: PassCost,
        *,
        has_evaluations: bool,
        eval_steps: int,
        further_cost: float = 0.0,
    ) -> None:
        self._num_steps, self._steps_per_epoch = schedule.num_steps, schedule.steps_per_epoch
        num_counted = max(self._steps_per_epoch, MAX_COUNTED_ROWS // schedule.rows_per_step)
        self._has_evaluations, self._eval_steps = has_evaluations, eval_steps
        rows = map(schedule.rows_of, range(min(self._num_steps, num_counted)))
        steps = (rows_of(training_data, each) for each in rows)
        costs = (pass_cost.of(data, training_data.group_size) + further_cost for data in steps)
        self._cost_before = [0.0, *accumulate(costs)]  # each counted step, and the end of the last one

    def after(self, step: int) -> RemainingWork:
        """What is left after so many steps."""
        num_steps = self._num_steps
        num_epochs = math.ceil(num_steps / self._steps_per_epoch) - step // self._steps_per_epoch
        num_ends = num_epochs if step < num_steps else 0
        interval = self._eval_steps
        num_evaluations = num_steps // interval - step // interval if interval else num_ends
        cost = self._cost_of(num_steps) - self._cost_of(step)
        return RemainingWork(cost, num_evaluations if self._has_evaluations else 0, num_ends)

    def _cost_of(self, num_steps: int) -> float:
        num_counted = len(self._cost_before) - 1
        if num_steps <= num_counted:
            return self._cost_before[num_steps]
        return self._cost_before[-1] * num_steps / num_counted


def make_workload(
    spec: JobSpec,
    schedule: Schedule,
    training_data: TrainingData,
    pass_cost: PassCost,
    *,
    has_evaluations: bool,
    further_cost: float = 0.0,
) -> JobWorkload:
    """The work of the job's schedule. The rest as in JobWorkload."""
    return JobWorkload(
        schedule,
        training_data,
        pass_cost,
        has_evaluations=has_evaluations,
        eval_steps=spec.hyperparameters.eval_steps,
        further_cost=further_cost,
    )


def rows_of(training_data: TrainingData, rows: Sequence[int]) -> list[Datum]:
    size = training_data.group_size
    return [training_data.data[row * size + place] for row in rows for place in range(size)]
