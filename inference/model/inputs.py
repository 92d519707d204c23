"""What a model's forward accepts, by its signature."""

import inspect

from transformers import PreTrainedModel


def takes(model: PreTrainedModel, name: str) -> bool:
    """Whether it takes an input of that name, or hands such on to its decoder, which does."""
    parameters = inspect.signature(model.forward).parameters
    if name in parameters:
        return True
    kinds = {parameter.kind for parameter in parameters.values()}
    decoder = model.get_decoder()
    return inspect.Parameter.VAR_KEYWORD in kinds and name in inspect.signature(decoder.forward).parameters
