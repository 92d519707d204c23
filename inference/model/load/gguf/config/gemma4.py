"""The config of a Gemma 4 in a GGUF file, whose layers differ: transformers assumes those of one model.

llama.cpp: conversion/gemma.py, Gemma4Model; src/models/gemma4.cpp.
"""

from typing import Any

from inference.model.load.gguf.file.header import GgufHeader

KINDS = ("full_attention", "sliding_attention")  # of layers, by whether attention has a window
ROPE_TYPES = ("proportional", "default")
PARTIAL_ROTARY_FACTOR = 0.25  # of full attention: the file states it by rope_freqs.weight alone


def gemma4_fields(header: GgufHeader) -> dict[str, Any]:
    num_layers = header.number("block_count")
    windows = per_layer(header, "attention.sliding_window_pattern", num_layers)
    kv_heads = per_layer(header, "attention.head_count_kv", num_layers)
    widths = per_layer(header, "feed_forward_length", num_layers)
    full_kv_heads, window_kv_heads = (
        next((count for count, has_window in zip(kv_heads, windows, strict=True) if has_window == kind), None)
        for kind in (False, True)
    )
    thetas = header.number("rope.freq_base", 1e6), header.number("rope.freq_base_swa", 1e4)
    ropes = [{"rope_type": kind, "rope_theta": theta} for kind, theta in zip(ROPE_TYPES, thetas, strict=True)]
    ropes[0]["partial_rotary_factor"] = PARTIAL_ROTARY_FACTOR
    num_values = sum(tensor.name.endswith(".attn_v.weight") for tensor in header.tensors or ())
    shared = header.number("attention.shared_kv_layers", 0)
    experts = header.number("expert_count") or None
    return {
        "layer_types": [KINDS[bool(has_window)] for has_window in windows],
        "head_dim": header.number("attention.key_length_swa"),
        "num_key_value_heads": window_kv_heads or full_kv_heads,
        "num_global_key_value_heads": full_kv_heads,
        "attention_k_eq_v": header.tensors is not None and num_values < num_layers - shared,
        "intermediate_size": widths[0],
        "use_double_wide_mlp": widths[-1] > widths[0],
        "num_kv_shared_layers": shared,
        "hidden_size_per_layer_input": header.number("embedding_length_per_layer_input", 0),
        "vocab_size_per_layer_input": header.vocab_size,
        "final_logit_softcapping": header.number("final_logit_softcapping"),
        "rope_parameters": dict(zip(KINDS, ropes, strict=True)),
        "enable_moe_block": bool(experts),
        "num_experts": experts,
        "top_k_experts": header.number("expert_used_count"),
        "moe_intermediate_size": header.number("expert_feed_forward_length"),
    }


def per_layer(header: GgufHeader, name: str, num_layers: int) -> list[Any]:
    """A setting that has a value for each layer, or one for all."""
    return header.lists.get(f"{header.architecture}.{name}") or [header.number(name)] * num_layers
