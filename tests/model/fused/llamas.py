"""Tiny Llama-like models whose weights native matrices hold."""

from typing import Any

import torch
from transformers import PreTrainedModel

from inference.model.weights.kinds import NONE
from inference.model.weights.swap import swap
from inference.native.matrix import Matrix
from tests.families import tiny


def held(name: str, dtype: torch.dtype = torch.float32, **settings: Any) -> PreTrainedModel:
    model = tiny(name, **settings).to(dtype)
    swap(model, NONE, Matrix.pack)
    return model
