"""The cache layers that transformers creates for a model: keys and values, or recurrent states."""

from typing import Any

from transformers import DynamicCache, PretrainedConfig
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

KV_LAYERS = (DynamicLayer, DynamicSlidingWindowLayer)


def build_cache_layers(config: PretrainedConfig) -> list[Any]:
    """The layers of an empty DynamicCache for the model."""
    return list(DynamicCache(config=config).layers)


def has_only_kv_cache(config: PretrainedConfig) -> bool:
    """Whether every layer caches only keys and values, as opposed to recurrent states.

    False for a config that does not describe its layers, such as BLT's, which is several transformers in one.
    """
    try:
        return all(type(layer) in KV_LAYERS for layer in build_cache_layers(config))
    except AttributeError:
        return False
