"""Loads the base model of a trainer's own process, and sets the process up to train it."""

from pathlib import Path

import torch

from inference.process.memory.malloc import LARGE_BLOCK, set_mmap_threshold
from settings.groups import ModelSettings
from tuning.trainer.model.base_model import BaseModel, load_base
from tuning.types import JobSpec, TrainingBase


def open_base(spec: JobSpec | TrainingBase, quantize: str) -> BaseModel:
    """The base model, packed by the scheme `quantize`. Raises as load_base."""
    torch.set_num_threads(max(1, spec.threads))
    settings = ModelSettings(
        device=spec.device,
        dtype=spec.dtype,
        quantize=quantize,
        imatrix=spec.imatrix if isinstance(spec, TrainingBase) else "",  # the schemes of jobs weigh no errors
        trust_remote_code=spec.trust_remote_code,
        allow_pickle=spec.allow_pickle,
        rope_scaling=spec.rope_scaling,
        rope_factor=spec.rope_factor,
        tokenizer_config_path=spec.tokenizer_config_path,
        chat_template=spec.chat_template,
    )
    base = load_base(Path(spec.model_folder), settings, context=spec.context, weight_file=spec.weight_file)
    set_mmap_threshold(LARGE_BLOCK)  # else freed activations leave holes, which double the resident memory
    return base
