"""Loads the base model of a trainer's own process, and sets the process up to train it."""

from pathlib import Path

import torch

from inference.model.load.rope import rope_scaling
from inference.process.malloc import LARGE_BLOCK, set_mmap_threshold
from tuning.trainer.base_model import BaseModel, load_base
from tuning.types import JobSpec, TrainingBase


def open_base(spec: JobSpec | TrainingBase, quantize: str) -> BaseModel:
    """quantize: as in load_base, which says what this raises."""
    torch.set_num_threads(max(1, spec.threads))
    base = load_base(
        Path(spec.model_folder),
        dtype=spec.dtype,
        device=spec.device,
        trust_remote_code=spec.trust_remote_code,
        tokenizer_config=Path(spec.tokenizer_config_path) if spec.tokenizer_config_path else None,
        chat_template=spec.chat_template,
        quantize=quantize,
        scaling=rope_scaling(spec.rope_scaling, spec.rope_factor),
        context=spec.context,
        allow_pickle=spec.allow_pickle,
        weight_file=spec.weight_file,
    )
    set_mmap_threshold(LARGE_BLOCK)  # else freed activations leave holes, which double the resident memory
    return base
