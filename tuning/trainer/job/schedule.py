"""Which rows and which learning rate each optimizer step has. Integers and floats alone.

Everything follows from the seed and the number of the step, so a job that goes on after a kill needs nothing
else to take the same steps.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from tuning.types import Hyperparameters

WARMUP_SHARE = 0.03


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps of a job, counted from 0.

    rows_per_step  rows of the file that one optimizer step takes; the last step of an epoch may have fewer
    """

    num_rows: int
    rows_per_step: int
    num_steps: int
    warmup_steps: int
    learning_rate: float
    seed: int
    shuffle: bool

    @property
    def steps_per_epoch(self) -> int:
        return math.ceil(self.num_rows / self.rows_per_step)

    def epoch_of(self, step: int) -> int:
        return step // self.steps_per_epoch

    def ends_epoch(self, step: int) -> bool:
        """Whether the step is the last one of its epoch, or of the job."""
        return (step + 1) % self.steps_per_epoch == 0 or step + 1 == self.num_steps

    def rows_of(self, step: int) -> list[int]:
        """The rows of a step, in an order of its own for each epoch."""
        epoch, place = divmod(step, self.steps_per_epoch)
        order = shuffled_rows(self.num_rows, self.seed, epoch) if self.shuffle else range(self.num_rows)
        return list(order[place * self.rows_per_step : (place + 1) * self.rows_per_step])

    def rate_of(self, step: int) -> float:
        """The learning rate: a linear warm-up, then linear to 0 after the last step."""
        if step < self.warmup_steps:
            return self.learning_rate * (step + 1) / self.warmup_steps
        return self.learning_rate * (self.num_steps - step) / max(1, self.num_steps - self.warmup_steps)


@lru_cache(maxsize=1)  # the steps of an epoch share its order
def shuffled_rows(num_rows: int, seed: int, epoch: int) -> Sequence[int]:
    order = list(range(num_rows))
    Random(f"{seed} {epoch}").shuffle(order)
    return order


def count_steps(hyperparameters: Hyperparameters, num_rows: int) -> int:
    num_steps = math.ceil(num_rows / hyperparameters.rows_per_step) * hyperparameters.n_epochs
    return min(num_steps, hyperparameters.max_steps or num_steps)


def make_schedule(num_rows: int, hyperparameters: Hyperparameters, seed: int) -> Schedule:
    num_steps = count_steps(hyperparameters, num_rows)
    warmup_steps = hyperparameters.warmup_steps
    if warmup_steps is None:
        warmup_steps = math.ceil(WARMUP_SHARE * num_steps)
    return Schedule(
        num_rows=num_rows,
        rows_per_step=hyperparameters.rows_per_step,
        num_steps=num_steps,
        warmup_steps=min(warmup_steps, num_steps),
        learning_rate=hyperparameters.learning_rate,
        seed=seed,
        shuffle=hyperparameters.shuffle,
    )
