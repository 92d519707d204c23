"""What a model's forward accepts, by its signature."""

import inspect

from transformers import PreTrainedModel


def accepts(model: PreTrainedModel, name: str) -> bool:
    """Whether it takes an input of that name."""
    return name in inspect.signature(model.forward).parameters


def takes(model: PreTrainedModel, name: str) -> bool:
    """The same, or it hands such on to its decoder, which does."""
    if accepts(model, name):
        return True
    kinds = {parameter.kind for parameter in inspect.signature(model.forward).parameters.values()}
    return inspect.Parameter.VAR_KEYWORD in kinds and accepts(model.get_decoder(), name)
