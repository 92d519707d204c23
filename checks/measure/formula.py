"""What a sequence keeps, by the kinds of a model's layers: for models that cannot be asked.

An estimate, and said to be one: it knows the names that configs give to what most architectures have.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

STATE = 4  # bytes of a value of a recurrent state: kept in float32
LATENT = "kv_lora_rank"
# As config.layer_types has them: those that keep a state, however long the sequence. All others keep every
# token, a window's too: the seats keep what they may be asked to go back to.
CONSTANT = frozenset({"linear_attention", "mamba", "mamba2", "conv", "recurrent", "gated_deltanet", "kda"})
NUMBERS: Mapping[str, tuple[str, ...]] = {
    # A decoder's own first: an encoder keeps nothing, and may have more or fewer.
    "layers": (
        *("decoder_layers", "num_decoder_layers"),
        *("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    ),
    "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads"),
    "groups": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"),
    "width": ("hidden_size", "n_embd", "d_model"),
    "head": ("head_dim", "d_kv", "kv_channels"),
    "shared": ("num_kv_shared_layers",),
}
# The sizes whose product is a state, for each way that configs describe one; and its convolution's.
STATES = (
    ("linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim"),
    ("mamba_n_heads", "mamba_d_head", "mamba_d_state"),
    ("intermediate_size", "state_size"),
)


def formula(config: Any, itemsize: int) -> tuple[int, int]:
    """Bytes for each token of a sequence, and besides, of a text model whose values take `itemsize` bytes."""
    layers = number(config, "layers", 0)
    kinds = getattr(config, "layer_types", None) or ["full_attention"] * layers
    constant = sum(kind in CONSTANT for kind in kinds)
    growing = max(0, len(kinds) - constant - number(config, "shared", 0))
    crossing = 2 if getattr(config, "is_encoder_decoder", False) else 1
    return crossing * growing * pair(config) * itemsize, constant * state(config)


def pair(config: Any) -> int:
    """Values of a token's key and value in a layer. Latents are counted unfolded, as most code keeps them."""
    heads = number(config, "heads", 1)
    if getattr(config, LATENT, None):
        parts = ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        return heads * sum(int(getattr(config, name, 0) or 0) for name in parts)
    head = number(config, "head", number(config, "width", 0) // heads)
    return 2 * number(config, "groups", heads) * head


def state(config: Any) -> int:
    """Bytes of a recurrent layer's state; 0 where the config does not say."""
    states = ([getattr(config, name, 0) for name in names] for names in STATES)
    return next((STATE * prod(sizes) for sizes in states if all(isinstance(size, int) for size in sizes)), 0)


def number(config: Any, what: str, default: int) -> int:
    values = (getattr(config, name, None) for name in NUMBERS[what])
    return next((value for value in values if value and isinstance(value, int)), default)
