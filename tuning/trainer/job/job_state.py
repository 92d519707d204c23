"""What a job needs to go on after a kill: counters here, the adapter and its optimizer beside them.

Knows the job's folder; the trainer writes its own part.
"""

import json
import math
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor

from tuning.trainer.durable_files import last_whole, replace_folder, write_json, write_tensors
from tuning.trainer.trainer import Trainer

STATE_FOLDER, COUNTERS_FILE = "state", "job_state.json"
REFERENCE_FILE = "reference.safetensors"


@dataclass(slots=True)
class JobState:
    """The counters of a job.

    step                steps that are done
    best_step           the evaluated checkpoint with the lowest loss; 0: none
    num_worse           evaluations since the best one
    num_not_finite      steps in a row that were skipped
    checkpoints         steps whose checkpoints exist, ascending
    """

    step: int = 0
    best_step: int = 0
    best_loss: float = math.inf
    num_worse: int = 0
    num_not_finite: int = 0
    checkpoints: list[int] = field(default_factory=list)


def save_state(folder: Path, state: JobState, trainer: Trainer, run_id: str) -> None:
    """Replace the saved state of the job in `folder`; a crash leaves the former one."""

    def fill(state_folder: Path) -> None:
        trainer.save(run_id, state_folder, with_optimizer=True)
        write_json(state_folder / COUNTERS_FILE, asdict(state))

    replace_folder(folder / STATE_FOLDER, fill)


def saved_state_folder(folder: Path) -> Path | None:
    """The folder of the state that was saved last; None if the job has not saved any."""
    return last_whole(folder / STATE_FOLDER)


def read_counters(state_folder: Path) -> JobState:
    """The counters of a state; those that an older version of this program counted are passed over."""
    counters = json.loads((state_folder / COUNTERS_FILE).read_text("utf-8"))
    names = {each.name for each in fields(JobState)}
    return JobState(**{name: value for name, value in counters.items() if name in names})


def save_reference(folder: Path, logprobs: list[Tensor]) -> None:
    """Keep the reference model's log probabilities: once the adapter has changed, they cannot be computed."""
    new = folder / f"{REFERENCE_FILE}.new"
    write_tensors(new, {str(index): values for index, values in enumerate(logprobs)})
    new.replace(folder / REFERENCE_FILE)


def read_reference(folder: Path) -> list[Tensor] | None:
    path = folder / REFERENCE_FILE
    if not path.exists():
        return None
    tensors = load_file(path)
    return [tensors[str(index)] for index in range(len(tensors))]
