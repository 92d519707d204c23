"""The checkpoints of a job: adapters as peft reads them, or models. The last few and the best are kept.

Knows the job's folder; not when a checkpoint is due.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from tuning.trainer.durable_files import replace_folder
from tuning.trainer.trainer import Trainer

CHECKPOINTS_FOLDER = "checkpoints"


def checkpoint_folder(folder: Path, step: int) -> Path:
    return folder / CHECKPOINTS_FOLDER / f"step-{step}"


def write_checkpoint(folder: Path, step: int, trainer: Trainer, run_id: str) -> Path:
    """Write the result as it is after `step` steps; returns the checkpoint's folder."""
    path = checkpoint_folder(folder, step)
    replace_folder(path, lambda new: trainer.save(run_id, new, with_optimizer=False))
    return path


def remove_checkpoints(folder: Path, steps: Iterable[int], best_step: int, max_count: int) -> list[int]:
    """Remove all but the last `max_count` and the best; returns the steps that remain."""
    ascending = sorted(steps)
    remaining = sorted({*ascending[-max_count:], *({best_step} & set(ascending))})
    for step in set(ascending) - set(remaining):
        shutil.rmtree(checkpoint_folder(folder, step), ignore_errors=True)
    return remaining
