"""Validates a config.json before anything else reads it: the types of the fields that all readers use.

The numbers of layers, experts and labels are bounded, because a model is built layer by layer even without
weights. transformers checks the other rules of each architecture.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Any

import torch

from inference.errors import short
from inference.finding import Finding, Refused

FIX = "correct its config.json, or choose another model"


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def is_length(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= 0


def is_dtype(value: Any) -> bool:
    return is_text(value) and isinstance(getattr(torch, value, None), torch.dtype)


def is_auto_map(value: Any) -> bool:
    """Whether each task maps to a "file.Class" string, or to a list of two for tokenizers."""
    return is_object(value) and all(isinstance(place, str | list) for place in value.values())


FIELD_TYPES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "model_type": (is_text, "a name"),
    "auto_map": (is_auto_map, "an object that names classes"),
    "text_config": (is_object, "an object"),
    "quantization_config": (is_object, "an object"),
    "max_position_embeddings": (is_length, "a number, 0 or more"),
    "dtype": (is_dtype, "a torch dtype"),
    "torch_dtype": (is_dtype, "a torch dtype"),
}
# Keys for the number of layers. A decoder beside an encoder has keys of its own.
LAYER_COUNT_KEYS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
DECODER_LAYER_COUNT_KEYS = ("decoder_layers", "num_decoder_layers")
# (pattern of a field's name, maximum: more than any model has). transformers writes a name for each label.
MAX_COUNTS = (
    (re.compile("layers?$"), 1_000),
    (re.compile("experts$"), 20_000),
    (re.compile("^num_labels$"), 100_000),
)


def check_config(config: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the config unchanged. Raises Refused if it is invalid."""
    if why := next(find_faults(config), ""):
        raise config_error(name, why)
    return config


def config_error(name: str, why: str) -> Refused:
    return Refused(Finding("architecture", name, f"an invalid config.json: {why}", False, FIX))


def find_faults(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield each fault of the config as text."""
    for field, (is_valid, expected) in FIELD_TYPES.items():
        value = config.get(field)
        if value is not None and not is_valid(value):
            yield f"{field} must be {expected}, and is {short(value)}"
    yield from find_excessive_counts(config)
    for section, value in config.items():
        if is_object(value):
            yield from find_excessive_counts(value, f"{section}.")


def find_excessive_counts(section: Mapping[Any, Any], prefix: str = "") -> Iterator[str]:
    """Yield the numbers of layers, experts and labels that are out of bounds."""
    for field, value in section.items():
        most = next((most for name, most in MAX_COUNTS if name.search(str(field))), 0)
        if not most or not isinstance(value, int):
            continue
        if value > most:
            yield f"{prefix}{field} must be at most {most}, and is {short(value)}"
        if value < 1 and field in LAYER_COUNT_KEYS and not prefix:
            yield f"{prefix}{field} must be at least 1, and is {value}"
