"""What a model keeps from one step to the next, by the layers of the cache that transformers makes for it."""

from typing import Any

from transformers import DynamicCache, PretrainedConfig
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

KEYS_AND_VALUES = (DynamicLayer, DynamicSlidingWindowLayer)


def kept(config: PretrainedConfig) -> list[Any]:
    """A layer for each that keeps something, empty."""
    return list(DynamicCache(config=config).layers)


def keys_and_values_alone(config: PretrainedConfig) -> bool:
    """Whether a model's rows can be told apart by their tokens: it has no recurrent states."""
    return all(type(layer) in KEYS_AND_VALUES for layer in kept(config))
