"""Which inputs a model's forward method accepts, by its signature."""

import inspect

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
