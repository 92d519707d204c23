"""The numbers of a decoder's config, a model in one row."""

from typing import Any


def decoder_numbers(
    hidden_size: int,
    intermediate_size: int,
    num_layers: int,
    num_heads: int,
    num_kv_heads: int,
    vocab_size: int,
    **others: Any,
) -> dict[str, Any]:
    """By the names of Llama's config, which many architectures share. `others`: further settings of it."""
    return {
        "hidden_size": hidden_size,
        "intermediate_size": intermediate_size,
        "num_hidden_layers": num_layers,
        "num_attention_heads": num_heads,
        "num_key_value_heads": num_kv_heads,
        "vocab_size": vocab_size,
        **others,
    }
