"""A program in place of tuning.jobs.prepare: counts the rows, without a model.

A training file whose first row has "prepare" says what happens: "invalid", "die", or "hold", which waits
until it is released.
"""

import os
import signal
import sys
from pathlib import Path

import orjson

from tests.tuning.held_programs import hold
from tuning.job_files import DRAFT_FILE, PREPARED_FILE, read_value, write_value
from tuning.jobs.draft import Draft, make_spec
from tuning.jobs.hyperparameters import ModelSizes, resolve_hyperparameters
from tuning.trainer.job.schedule import count_steps
from tuning.types import JobError


def main(folder: Path) -> None:
    draft = read_value(folder / DRAFT_FILE, Draft)
    rows = [orjson.loads(line) for line in Path(draft.training_file).read_bytes().splitlines()]
    match rows[0].get("prepare"):
        case "invalid":
            message = "Line 1: messages is required"
            error = JobError(code="invalid_training_file", message=message, param="training_file")
            write_value(folder / PREPARED_FILE, {"error": error})
            return
        case "die":
            print("Traceback: a bug")
            os.kill(os.getpid(), signal.SIGKILL)
        case "hold":
            hold(folder)
    sizes = ModelSizes(2000, "llama", 128)
    hyperparameters = resolve_hyperparameters(draft.hyperparameters, draft.method, len(rows), sizes)
    prepared = {
        "spec": make_spec(draft, hyperparameters),
        "num_examples": len(rows),
        "num_tokens": 10 * len(rows),
        "num_total_steps": count_steps(hyperparameters, len(rows)),
        "messages": ("2 rows are cut",),
        "memory_plan": {"weights": 1000},
        "estimated_s": 3.0,
    }
    write_value(folder / PREPARED_FILE, prepared)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
