"""Which inputs a model's forward method accepts, by its signature, and the first of its position ids."""

import inspect
from collections.abc import Mapping
from typing import Any

from transformers import PreTrainedModel


def accepts(model: PreTrainedModel, name: str) -> bool:
    """Whether model.forward has a parameter of this name."""
    return name in inspect.signature(model.forward).parameters


def accepts_through_decoder(model: PreTrainedModel, name: str) -> bool:
    """Whether model.forward has this parameter, or passes **kwargs on to a decoder whose forward has it."""
    if accepts(model, name):
        return True
    kinds = {parameter.kind for parameter in inspect.signature(model.forward).parameters.values()}
    return inspect.Parameter.VAR_KEYWORD in kinds and accepts(model.get_decoder(), name)


def first_position(model: PreTrainedModel) -> int:
    """The position id of a row's first token: 0, except in RoBERTa and similar models."""
    return next((module.padding_idx + 1 for module in model.modules() if counts_from_padding(module)), 0)


def counts_from_padding(module: Any) -> bool:
    """RoBERTa and similar models: positions begin at padding_idx + 1, unless position ids are passed."""
    counts = hasattr(module, "create_position_ids_from_input_ids") and hasattr(module, "padding_idx")
    return counts and "position_ids" in forward_parameters(module)


def forward_parameters(module: Any) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(module.forward).parameters
