"""The KV cost of a sequence by a formula, for models that cannot be measured.

Findings report it as an estimate. It knows the config keys of most architectures.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

from hub.model_config import DECODER_LAYER_COUNT_KEYS, LAYER_COUNT_KEYS
from inference.model.kv_cost import KVCost

STATE_ITEMSIZE = 4  # a recurrent state is in float32
LATENT_KEY = "kv_lora_rank"
# Values of config.layer_types whose layers have a state of constant size. Layers with a sliding window count
# as if they kept every token: that depends on the runner, which is not known here.
RECURRENT_LAYER_TYPES = frozenset(
    {"linear_attention", "mamba", "mamba2", "conv", "recurrent", "gated_deltanet", "kda"}
)
CONFIG_KEYS: Mapping[str, tuple[str, ...]] = {
    # The decoder's keys come first: an encoder has no KV cache and may have another number of layers.
    "layers": (*DECODER_LAYER_COUNT_KEYS, *LAYER_COUNT_KEYS),
    "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads"),
    "groups": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"),
    "width": ("hidden_size", "n_embd", "d_model"),
    "head": ("head_dim", "d_kv", "kv_channels"),
    "shared": ("num_kv_shared_layers",),
}
# Keys whose product is the number of values in a state, for each kind of recurrent layer.
STATE_SHAPE_KEYS = (
    ("linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim"),
    ("mamba_n_heads", "mamba_d_head", "mamba_d_state"),
    ("intermediate_size", "state_size"),
)


def estimate_kv_cost(config: Any, itemsize: int) -> KVCost:
    """What a sequence takes; a value has `itemsize` bytes."""
    num_layers = read_number(config, "layers", 0)
    layer_types = getattr(config, "layer_types", None) or ["full_attention"] * num_layers
    # Layers that differ in more than their type have configs of their own; the common one refuses to tell.
    layers = [*(getattr(config, "per_layer_config", ()) if num_layers else ())] or [config] * len(layer_types)
    typed_layers = list(zip(layers, layer_types, strict=False))
    kv_layers = [layer for layer, layer_type in typed_layers if layer_type not in RECURRENT_LAYER_TYPES]
    recurrent_layers = [layer for layer, layer_type in typed_layers if layer_type in RECURRENT_LAYER_TYPES]
    num_kv_layers = max(0, len(kv_layers) - read_number(config, "shared", 0))
    num_attentions = 2 if getattr(config, "is_encoder_decoder", False) else 1
    return KVCost(
        num_attentions * sum(map(kv_values_per_token, kv_layers[:num_kv_layers])) * itemsize,
        sum(map(recurrent_state_bytes, recurrent_layers)),
    )


def kv_values_per_token(config: Any) -> int:
    """Elements of a token's key and value in a layer. MLA latents count at their expanded size."""
    num_heads = read_number(config, "heads", 1)
    if getattr(config, LATENT_KEY, None):
        width_keys = ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        return num_heads * sum(int(getattr(config, name, 0) or 0) for name in width_keys)
    head_dim = read_number(config, "head", read_number(config, "width", 0) // num_heads)
    return 2 * read_number(config, "groups", num_heads) * head_dim


def recurrent_state_bytes(config: Any) -> int:
    """Bytes of a recurrent layer's state; 0 if the config does not give its size."""
    shapes = ([getattr(config, name, 0) for name in names] for names in STATE_SHAPE_KEYS)
    return next(
        (STATE_ITEMSIZE * prod(shape) for shape in shapes if all(isinstance(size, int) for size in shape)), 0
    )


def read_number(config: Any, key: str, default: int) -> int:
    values = (getattr(config, name, None) for name in CONFIG_KEYS[key])
    return next((value for value in values if value and isinstance(value, int)), default)
