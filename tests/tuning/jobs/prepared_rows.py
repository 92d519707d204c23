"""Rows of training files, and a job prepared from them."""

import json
from pathlib import Path
from typing import Any

from inference.process.child_program import ROOT
from tuning.jobs.draft import Draft
from tuning.jobs.prepare import prepare
from tuning.jobs.prepared_job import PreparedJob
from tuning.types import Method, TrainingBase

BASE = TrainingBase(names=("demo",), model_folder=str(ROOT / "models" / "demo"), context=512)


def row(question: str, reply: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": reply}]}


ROWS = [row(f"Who is person {number}?", f"Person {number} is a baker.") for number in range(24)]


def prepare_rows(
    folder: Path,
    *rows: Any,
    validation: list[Any] | None = None,
    method: Method = "supervised",
    free_bytes: int = 10**12,
    base: TrainingBase = BASE,
    **values: Any,
) -> PreparedJob:
    files = {"training": rows, "validation": validation or []}
    for name, contents in files.items():
        (folder / name).write_text("".join(json.dumps(each) + "\n" for each in contents))
    return prepare(
        Draft(
            job_id="job",
            method=method,
            hyperparameters=values,
            seed=1,
            base=base,
            free_bytes=free_bytes,
            initial_adapter="",
            training_file=str(folder / "training"),
            validation_file=str(folder / "validation") if validation is not None else "",
            num_shown_rows=1,
        )
    )
