"""How long the rest of a job takes, from what this process has timed.

Knows work and seconds; no clock and no model.
"""

from dataclasses import dataclass, field

from tuning.trainer.job.pass_cost import PassCost
from tuning.trainer.job.save_schedule import max_save_share
from tuning.trainer.job.training_data import TrainingData
from tuning.trainer.job.workload import RemainingWork
from tuning.types import JobSpec

EVALUATION_SHARE = 0.33  # of a step's time for each token: an evaluation has no backward pass
SAVES_AT_EPOCH_END = 4 / 3  # the state is an adapter and two moments; a checkpoint is written beside it


@dataclass(slots=True)
class RemainingTime:
    """The speed of a job so far, and what it says about the rest.

    valid_cost      of passes over the validation file, which estimates their time until there were some
    max_save_share  most of the training time that saving takes
    save_s          seconds of saving at the end of an epoch
    """

    valid_cost: float = 0.0
    max_save_share: float = 1.0
    num_steps: int = field(default=0, init=False)
    seconds: float = field(default=0.0, init=False)
    cost: float = field(default=0.0, init=False)
    save_s: float = field(default=0.0, init=False)
    evaluation_s: float | None = field(default=None, init=False)

    def add_step(self, cost: float, seconds: float) -> None:
        """Count a step. The first one also sets up buffers and kernels: later ones replace it."""
        if self.num_steps == 1:
            self.seconds, self.cost = 0.0, 0.0
        self.num_steps += 1
        self.seconds += seconds
        self.cost += cost

    def add_state(self, seconds: float) -> None:
        """Count the saving of a state without a checkpoint."""
        self.save_s = SAVES_AT_EPOCH_END * seconds

    def estimate(self, work: RemainingWork) -> float:
        """Seconds of so much more work; 0 before the first step."""
        token_s = self.seconds / max(1.0, self.cost)
        evaluation_s = self.evaluation_s
        if evaluation_s is None:
            evaluation_s = EVALUATION_SHARE * token_s * self.valid_cost
        training_s = work.cost * token_s + work.num_evaluations * evaluation_s
        most_s = max(self.save_s, self.max_save_share * training_s)  # the end is saved in any case
        return training_s + min(work.num_saves * self.save_s, most_s)


def make_remaining_time(
    spec: JobSpec, pass_cost: PassCost, validation_data: TrainingData | None
) -> RemainingTime:
    valid_cost = 0.0
    if validation_data:
        valid_cost = pass_cost.of(validation_data.data, validation_data.group_size)
    return RemainingTime(valid_cost, max_save_share(spec.hyperparameters.finetuning_type))
