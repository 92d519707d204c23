"""The size of weights that are quantized in their files and stay quantized when they are loaded.

Their loaders need values, so they cannot run on the meta device: the size comes from the files.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from inference.model.load.checkpoint_quantization import QUANTIZATION_CONFIG, stays_quantized
from inference.model.load.meta_model import nbytes


def has_quantized_weights(raw_config: Mapping[str, Any]) -> bool:
    """Whether the config.json describes weights that stay quantized when they are loaded."""
    return QUANTIZATION_CONFIG in raw_config and stays_quantized(raw_config[QUANTIZATION_CONFIG])


def quantized_size(model: Any, tensors: Mapping[str, Tensor] | None, dtype: str, stored_bytes: int) -> int:
    """Bytes of the model's buffers and of the files' tensors.

    A tensor that is not quantized (a float of the model's own shape, larger than one byte) counts in `dtype`.
    tensors: those of the files, on the meta device; None: unknown, and the result is `stored_bytes`.
    """
    if tensors is None:
        return stored_bytes
    itemsize = getattr(torch, dtype).itemsize
    shapes = {name: own.shape for name, own in model.state_dict().items()}
    return nbytes(model.buffers()) + sum(
        tensor.numel() * itemsize
        if tensor.is_floating_point() and tensor.itemsize > 1 and shapes.get(name) == tensor.shape
        else tensor.nbytes
        for name, tensor in tensors.items()
    )
