"""A job before its files are validated."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuning.types import Hyperparameters, JobSpec, Method, TrainingBase, base_fields


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
