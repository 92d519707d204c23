"""Tiny Llama-like models with packed native weights."""

from typing import Any

import torch
from transformers import PreTrainedModel

from inference.model.quantization.replace import replace_weights
from inference.model.quantization.schemes import NONE
from inference.native.packed_matrix import PackedMatrix
from tests.tiny_models.families import tiny


def tiny_with_packed_weights(
    name: str, dtype: torch.dtype = torch.float32, **settings: Any
) -> PreTrainedModel:
    model = tiny(name, **settings).to(dtype)
    replace_weights(model, NONE, PackedMatrix.pack)
    return model
