"""The disk that a full fine-tuning takes at most, predicted before the job starts.

Knows what a job saves; an adapter's files are too small to be planned.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from inference.finding import Finding, format_size
from inference.model.load.device_dtype import resolve_device
from inference.model.load.meta_model import build_on_meta, count_parameters
from tuning.trainer.memory.memory_plan import FLOAT_BYTES, NUM_MOMENTS
from tuning.trainer.model.base_model import training_dtype
from tuning.types import NUM_CHECKPOINTS, JobSpec

NEW_AND_OLD = 2  # a state is written beside the one that it replaces


def plan_disk(raw_config: Mapping[str, Any], spec: JobSpec) -> int:
    """Bytes of the states and checkpoints of a job on the model of a config.json; 0 for an adapter.

    The result is a link to its checkpoint. Raises whatever the architecture raises.
    """
    hyperparameters = spec.hyperparameters
    if not hyperparameters.is_full:
        return 0
    num_weights = count_parameters(build_on_meta(raw_config))
    dtype = getattr(torch, training_dtype(spec.dtype, resolve_device(spec.device), num_weights))
    num_moments = NUM_MOMENTS.get(hyperparameters.optimizer, 0)
    num_models = NUM_CHECKPOINTS["full"] + bool(spec.validation_file) + 1  # the last, the best, the new one
    state_bytes = (1 + num_moments) * FLOAT_BYTES
    return num_weights * (NEW_AND_OLD * state_bytes + num_models * dtype.itemsize)


def check_disk(needed_bytes: int, folder: Path) -> Finding:
    """Whether the disk of `folder` has room for what a job saves."""
    free_bytes = shutil.disk_usage(folder).free
    shortage = format_size(needed_bytes - free_bytes)
    fix = f"free {shortage}, set TUNING_DIR to another disk, or train an adapter: finetuning_type=lora"
    is_ok = needed_bytes <= free_bytes
    need, have = format_size(needed_bytes), f"{format_size(free_bytes)} free"
    return Finding("training disk", need, have, is_ok, "" if is_ok else fix)
