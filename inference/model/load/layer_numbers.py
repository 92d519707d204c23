"""The numbers of a config that may differ by layer, such as the width of a head in Gemma 4.

Knows transformers' configs; reading such a number from the config of the whole model raises RuntimeError
(transformers, integrations/heterogeneity/configuration_utils.py).
"""

from typing import Any


def layer_numbers(config: Any, name: str) -> list[int]:
    """The number under this name of each layer, or the one number of all layers; empty if there is none."""
    if name in (getattr(config, "per_layer_attributes", None) or ()):
        values = [getattr(each, name, None) for each in config.per_layer_config]
    else:
        value = getattr(config, name, None)
        values = list(value) if isinstance(value, list | tuple) else [value]
    return [int(each) for each in values if isinstance(each, int)]


def largest_number(config: Any, name: str) -> int:
    """The largest of layer_numbers; 0 if there is none."""
    return max(layer_numbers(config, name), default=0)
