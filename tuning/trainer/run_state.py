"""The whole state of a run, for a run that leaves memory: adapter, optimizer and gradients, in one folder."""

from pathlib import Path

from safetensors.torch import load_file

from tuning.trainer.durable_files import write_tensors
from tuning.trainer.run_files import GRADIENTS_FILE, OPTIMIZER_FILE
from tuning.trainer.trainer import Trainer


def save_run_state(trainer: Trainer, run_id: str, folder: Path) -> None:
    """Write the state into an existing folder."""
    trainer.save(run_id, folder, with_optimizer=True)
    parameters = trainer.runs[run_id].parameters
    gradients = {name: weight.grad for name, weight in parameters.items() if weight.grad is not None}
    if gradients:
        write_tensors(folder / GRADIENTS_FILE, gradients)


def open_run_state(trainer: Trainer, run_id: str, folder: Path) -> int:
    """Begin a run with the state in `folder`; returns the number of trained parameters."""
    num_trained = trainer.create_run_from(run_id, folder)
    if (folder / OPTIMIZER_FILE).exists():  # a run may begin with the weights of a checkpoint alone
        trainer.load(run_id, folder, with_optimizer=True)
    if (folder / GRADIENTS_FILE).exists():
        parameters = trainer.runs[run_id].parameters
        for name, gradient in load_file(folder / GRADIENTS_FILE).items():
            parameters[name].grad = gradient.to(parameters[name].device)
    return num_trained
