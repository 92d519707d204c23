"""Weights that are in fewer bits in their files, and stay so once they are loaded.

What reads such a form needs its values, so the files alone tell how much they take.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from checks.measure.skeleton import nbytes
from inference.model.prequantised import QUANTISED, stays_packed


def is_packed(raw: Mapping[str, Any]) -> bool:
    """Whether the weights of a config.json are."""
    return QUANTISED in raw and stays_packed(raw[QUANTISED])


def packed(model: Any, tensors: Mapping[str, Tensor] | None, dtype: str, stored: int) -> int:
    """Bytes of the model: of the files' tensors, in `dtype` where they are the model's as they are.

    Without tensors, which are on the meta device, it is what is `stored`.
    """
    if tensors is None:
        return stored
    width = getattr(torch, dtype).itemsize
    shapes = {name: own.shape for name, own in model.state_dict().items()}
    return nbytes(model.buffers()) + sum(
        tensor.numel() * width if plain(tensor) and shapes.get(name) == tensor.shape else tensor.nbytes
        for name, tensor in tensors.items()
    )


def plain(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.itemsize > 1
