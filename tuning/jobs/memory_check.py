"""Whether a job fits into the memory that serving leaves, and the nearest job that does.

Knows hyperparameters and plans of memory; not how a plan is made.
"""

import dataclasses
from collections.abc import Callable, Iterator

from inference.finding import Finding
from tuning.trainer.memory.memory_plan import TrainingPlan, check_memory
from tuning.types import Hyperparameters

MakePlan = Callable[[Hyperparameters], TrainingPlan]
LAST_RESORT = "use a smaller max_length, free memory, or serve with a larger TUNING_MEMORY_GB"


def check_job_memory(hyperparameters: Hyperparameters, make_plan: MakePlan, free_bytes: int) -> Finding:
    """The finding of the job, with the nearest hyperparameters that fit as its fix."""
    finding = check_memory(make_plan(hyperparameters), free_bytes)
    if finding.ok:
        return finding
    for smaller in smaller_hyperparameters(hyperparameters):
        if make_plan(smaller).total <= free_bytes:
            return dataclasses.replace(finding, fix=f"use {describe_changes(hyperparameters, smaller)}")
    fewer = ", or a smaller TUNING_PROCESSES" if make_plan(hyperparameters).num_processes > 1 else ""
    return dataclasses.replace(finding, fix=LAST_RESORT + fewer)


def smaller_hyperparameters(hyperparameters: Hyperparameters) -> Iterator[Hyperparameters]:
    """From the least change on. A smaller batch accumulates gradients: its steps are the same."""
    batches = list(smaller_batches(hyperparameters))
    yield from batches
    checkpointing = dataclasses.replace(hyperparameters, activation_checkpointing=True)
    smallest = dataclasses.replace(batches[-1] if batches else hyperparameters, activation_checkpointing=True)
    yield checkpointing
    yield smallest
    if hyperparameters.is_full:
        smallest = dataclasses.replace(smallest, finetuning_type="lora")
        yield smallest
    yield dataclasses.replace(smallest, quantize_base=True)


def smaller_batches(hyperparameters: Hyperparameters) -> Iterator[Hyperparameters]:
    while hyperparameters.batch_size > 1:
        hyperparameters = dataclasses.replace(
            hyperparameters,
            batch_size=hyperparameters.batch_size // 2,
            gradient_accumulation_steps=hyperparameters.gradient_accumulation_steps * 2,
        )
        yield hyperparameters


def describe_changes(hyperparameters: Hyperparameters, other: Hyperparameters) -> str:
    """Such as "batch_size=1, gradient_accumulation_steps=4"."""
    names = [field.name for field in dataclasses.fields(Hyperparameters)]
    changed_names = [name for name in names if getattr(hyperparameters, name) != getattr(other, name)]
    return ", ".join(f"{name}={str(getattr(other, name)).lower()}" for name in changed_names)
