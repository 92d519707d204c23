"""The loss on a validation file, and measures of a batch that a user can read.

Knows the verbs of the trainer; not when an evaluation is due.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from tuning.trainer.datum import Datum
from tuning.trainer.job.training_data import TrainingBatch, TrainingData
from tuning.trainer.pass_result import PassResult
from tuning.trainer.trainer import Trainer


def score(trainer: Trainer, run_id: str, data: Sequence[Datum]) -> Sequence[Tensor]:
    """The log probabilities that the run's model gives the targets of the data."""
    return trainer.forward(run_id, data, "cross_entropy").logprobs


def evaluate(trainer: Trainer, run_id: str, training_data: TrainingData) -> dict[str, float]:
    """The means over a validation file, under the names of an evaluation's fields."""
    batch = training_data.batch(range(len(training_data)), lambda data: score(trainer, run_id, data))
    result = trainer.forward(run_id, batch.data, batch.loss_fn, batch.config)
    measures = batch_measures(batch, result)
    return {"valid_loss": result.loss, **{f"valid_{name}": value for name, value in measures.items()}}


def batch_measures(batch: TrainingBatch, result: PassResult) -> dict[str, float]:
    """How many targets were the most probable tokens and, of pairs, by how much the chosen one won."""
    measures = {"mean_token_accuracy": result.num_correct / max(1, result.num_scored)}
    margins = reward_margins(batch, result)
    if margins is not None:
        measures["reward_margin"] = margins.mean().item()
        measures["reward_accuracy"] = (margins > 0).float().mean().item()
    return measures


def reward_margins(batch: TrainingBatch, result: PassResult) -> Tensor | None:
    """By pair, the reward of the chosen completion minus that of the rejected one; None without a reference.

    A reward is β (log π - log π_ref), as trl reports it.
    """
    if not batch.loss_fn.startswith("dpo"):
        return None
    rewards = [
        torch.dot(
            (logprobs - torch.tensor(datum.inputs["reference_logprobs"])).nan_to_num(), weights_of(datum)
        )
        for datum, logprobs in zip(batch.data, result.logprobs, strict=True)
    ]
    stacked = batch.config["beta"] * torch.stack(rewards)
    return stacked[0::2] - stacked[1::2]


def weights_of(datum: Datum) -> Tensor:
    return torch.tensor(datum.inputs["weights"], dtype=torch.float32)
