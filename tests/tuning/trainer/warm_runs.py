"""Runs that have begun to train, and their gradients."""

from torch import Tensor

from tests.tuning.trainer.conftest import weighted_data
from tuning.trainer.model.lora import LoraOptions
from tuning.trainer.optimizers import AdamParams
from tuning.trainer.trainer import Trainer

STEP = AdamParams(learning_rate=1e-2)


def gradients(trainer: Trainer, run_id: str) -> dict[str, Tensor]:
    parameters = trainer.runs[run_id].parameters
    return {name: weight.grad.clone() for name, weight in parameters.items() if weight.grad is not None}


def train(trainer: Trainer, run_id: str, num_steps: int, first: int = 0) -> list[float]:
    losses = []
    for step in range(first, first + num_steps):
        losses.append(
            trainer.forward_backward(run_id, weighted_data([6, 8], seed=step), "cross_entropy").loss
        )
        trainer.optim_step(run_id, STEP)
    return losses


def warm(trainer: Trainer, run_id: str = "a", **options: object) -> Trainer:
    """The trainer with a run whose adapter is no longer the initial one."""
    trainer.create_run(run_id, LoraOptions(rank=4, **options))  # type: ignore[arg-type]
    train(trainer, run_id, 2, first=100)
    return trainer
