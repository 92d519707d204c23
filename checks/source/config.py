"""What a config.json must be before anybody reads on: the fields that all readers rely on, of their kinds.

A model is built part by part, be it without weights, so how many parts there can be is bounded, too. What an
architecture asks of its config besides is transformers' to say.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Any

import torch

from checks.finding import Finding, Refused
from inference.errors import short

MEND = "correct its config.json, or choose another model"


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and isfinite(value)


def is_dtype(value: Any) -> bool:
    return is_text(value) and isinstance(getattr(torch, value, None), torch.dtype)


def is_code(value: Any) -> bool:
    """A class and its file for each task; for tokenizers, two."""
    return is_object(value) and all(isinstance(place, str | list) for place in value.values())


KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "model_type": (is_text, "a name"),
    "auto_map": (is_code, "an object that says where code is"),
    "text_config": (is_object, "an object"),
    "quantization_config": (is_object, "an object"),
    "max_position_embeddings": (is_number, "a number"),
    "dtype": (is_dtype, "a dtype of torch's"),
    "torch_dtype": (is_dtype, "a dtype of torch's"),
}
LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers")  # those that there must be
# What is counted, as its name ends, and more of it than any model has.
MOST = ((re.compile("layers?$"), 1_000), (re.compile("experts$"), 20_000))


def checked(config: dict[str, Any], name: str) -> dict[str, Any]:
    """The config itself. Raises Refused where nobody could make sense of it."""
    if why := next(faults(config), ""):
        raise wrong(name, why)
    return config


def wrong(name: str, why: str) -> Refused:
    return Refused(Finding("architecture", name, f"a config.json that is wrong: {why}", False, MEND))


def faults(config: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with it, in words."""
    for field, (is_right, wanted) in KINDS.items():
        value = config.get(field)
        if value is not None and not is_right(value):
            yield f"{field} must be {wanted}, and is {short(value)}"
    yield from uncountable(config)
    for part, value in config.items():
        if is_object(value):
            yield from uncountable(value, f"{part}.")


def uncountable(part: Mapping[Any, Any], within: str = "") -> Iterator[str]:
    """Numbers of layers and experts that no model has."""
    for field, value in part.items():
        most = next((most for name, most in MOST if name.search(str(field))), 0)
        if not most or not isinstance(value, int):
            continue
        if value > most:
            yield f"{within}{field} must be at most {most}, and is {short(value)}"
        if value < 1 and field in LAYERS and not within:
            yield f"{within}{field} must be at least 1, and is {value}"
