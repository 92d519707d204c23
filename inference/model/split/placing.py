"""A model is loaded onto several devices, each layer straight to its own.

Knows what transformers and accelerate do with such a model; hooks of ours (carry.py) take accelerate's place.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch
from transformers import modeling_utils

from inference.errors import BadRequest
from inference.model.split.spread import device_map


def mapped(family: Any, config: Any, devices: Sequence[str], code: bool) -> dict[str, str]:
    """transformers' device_map for a model with a device for each of its layers. Raises BadRequest."""
    with torch.device("meta"):
        skeleton = family.from_config(deepcopy(config), trust_remote_code=code)
    try:
        return device_map(skeleton, devices)
    except ValueError as error:
        raise BadRequest("LAYERS", f"cannot be obeyed: {error}") from error


@contextmanager
def undispatched() -> Iterator[None]:
    """Meanwhile transformers leaves a model that it loaded onto several devices as it is.

    It would hand it to accelerate, under which layers on the CPU are computed on a GPU, and their weights are
    copied there at every step.
    """
    dispatch = modeling_utils.accelerate_dispatch
    modeling_utils.accelerate_dispatch = lambda *args, **kwargs: None
    try:
        yield
    finally:
        modeling_utils.accelerate_dispatch = dispatch
