"""A job before its files are validated, and what the validation found out: files between processes."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from inference.finding import Finding
from tuning.data.inspection import InspectedRow
from tuning.types import JobError, JobSpec, Method, TrainingBase

DRAFT_FILE, PREPARED_FILE, SPEC_FILE = "draft.json", "prepared.json", "job.json"

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A job whose hyperparameters are as requested. The other fields are those of JobSpec.

    free_bytes      memory that serving leaves for the trainer
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedJob:
    """A draft whose files are valid, or why they are not.

    spec                what to train; None if the files are invalid
    num_examples        rows of the training file that are trained on
    num_cut             rows left out because they are too long
    num_tokens          of all examples, prompts included; num_trained_tokens: those with a weight in the loss
    max_row_tokens      of the longest example
    num_total_steps     optimizer steps
    messages            what the user must know, as sentences
    memory              whether the training fits beside serving: need, have and fix
    memory_plan         bytes by term
    shown_rows          the first rows with their tokens and masks
    """

    spec: JobSpec | None = None
    num_examples: int = 0
    num_cut: int = 0
    num_tokens: int = 0
    num_trained_tokens: int = 0
    max_row_tokens: int = 0
    num_total_steps: int = 0
    messages: tuple[str, ...] = ()
    memory: Finding | None = None
    memory_plan: Mapping[str, int] = field(default_factory=dict)
    shown_rows: tuple[InspectedRow, ...] = ()
    error: JobError | None = None


def read_value(path: Path, type: type[Value]) -> Value:
    return msgspec.json.decode(path.read_bytes(), type=type)


def write_value(path: Path, value: Any) -> None:
    """Write JSON to a file that is complete whenever it exists."""
    partial = path.with_name(f".{path.name}")
    with partial.open("wb") as file:
        file.write(msgspec.json.encode(value))
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)
