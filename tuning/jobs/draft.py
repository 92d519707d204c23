"""A job before its files are validated, and how values pass between processes as files."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from inference.struct_types import ready
from tuning.types import Hyperparameters, JobSpec, Method, TrainingBase, base_fields

DRAFT_FILE, PREPARED_FILE, SPEC_FILE = "draft.json", "prepared.json", "job.json"

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A job whose hyperparameters are as requested. The other fields are those of JobSpec.

    free_bytes      memory that serving leaves for each process of the trainer
    num_shown_rows  rows to return with their tokens; 0: none
    """

    job_id: str
    method: Method
    hyperparameters: Mapping[str, Any]
    seed: int
    base: TrainingBase
    initial_adapter: str
    training_file: str
    validation_file: str
    free_bytes: int
    num_shown_rows: int = 0


def make_spec(draft: Draft, hyperparameters: Hyperparameters) -> JobSpec:
    return JobSpec(
        job_id=draft.job_id,
        method=draft.method,
        hyperparameters=hyperparameters,
        seed=draft.seed,
        initial_adapter=draft.initial_adapter,
        training_file=draft.training_file,
        validation_file=draft.validation_file,
        **base_fields(draft.base),
    )


def count_steps(hyperparameters: Hyperparameters, num_examples: int) -> int:
    num_steps = hyperparameters.n_epochs * count_steps_of_epoch(hyperparameters, num_examples)
    return min(num_steps, hyperparameters.max_steps or num_steps)


def count_steps_of_epoch(hyperparameters: Hyperparameters, num_examples: int) -> int:
    rows_of_step = hyperparameters.batch_size * hyperparameters.gradient_accumulation_steps
    return math.ceil(num_examples / rows_of_step)


def read_value(path: Path, type: type[Value]) -> Value:
    return msgspec.json.decode(path.read_bytes(), type=ready(type))


def write_value(path: Path, value: Any) -> None:
    """Write JSON to a file that is complete whenever it exists."""
    partial = path.with_name(f".{path.name}")
    with partial.open("wb") as file:
        file.write(msgspec.json.encode(value))
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
