"""Tiny random float32 models of many families, with weights large enough for a clear most probable token.

`tiny("bloom")` needs no network and a fraction of a second. All have VOCAB tokens and CONTEXT positions. They
are on the device that TINY_DEVICE names, by default the CPU; scripts/gpu sets a GPU.
"""

import os
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, PreTrainedModel

from inference.model.load.loader import choose_attention
from tests.missing_compiler import has_compiler

DEVICE = os.environ.get("TINY_DEVICE", "cpu")
needs_fused = pytest.mark.skipif(
    DEVICE != "cpu" or not has_compiler(), reason="the fused runner needs the CPU and a compiler"
)
VOCAB = 97
CONTEXT = 128
LLAMA = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
}
UNGROUPED = LLAMA | {"num_key_value_heads": 4}
WINDOW = LLAMA | {"head_dim": 8, "sliding_window": 6}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": CONTEXT}
FALCON = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "new_decoder_architecture": False,
}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": CONTEXT,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}

# Name -> settings of its config; a suffix after "+" distinguishes two of the same model type.
ATTENTION: dict[str, dict[str, Any]] = {
    "llama": LLAMA,
    "qwen3": LLAMA | {"head_dim": 8},
    "mistral": LLAMA | {"sliding_window": 6},
    "gemma2": WINDOW,
    "gemma3_text": WINDOW,
    "phi": UNGROUPED,
    "olmo2": LLAMA,
    "cohere": LLAMA,
    "starcoder2": LLAMA,
    "stablelm": LLAMA,
    "mixtral": LLAMA | {"num_local_experts": 4},
    "gpt2": GPT2,
    "gpt_bigcode": GPT2 | {"multi_query": True},
    "gpt_neox": UNGROUPED,
    "opt": {
        "hidden_size": 32,
        "ffn_dim": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": CONTEXT,
        "word_embed_proj_dim": 32,
    },
    "gpt_neo": {
        "hidden_size": 32,
        "num_layers": 2,
        "num_heads": 4,
        "attention_types": [[["global", "local"], 1]],
        "window_size": 6,
        "max_position_embeddings": CONTEXT,
    },
    "gptj": GPT2 | {"rotary_dim": 4},
    "codegen": GPT2 | {"rotary_dim": 4},
    "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4},
    "falcon": FALCON | {"multi_query": True, "parallel_attn": True, "alibi": False},
    "falcon+alibi": FALCON | {"multi_query": False, "parallel_attn": False, "alibi": True},
    "mpt": {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": CONTEXT},
    "xglm": {
        "d_model": 32,
        "ffn_dim": 64,
        "num_layers": 2,
        "attention_heads": 4,
        "max_position_embeddings": CONTEXT,
    },
}
# Families whose whole steps native code computes, one for each of their peculiarities.
LLAMAS: dict[str, dict[str, Any]] = {
    "llama": LLAMA,
    "mistral": LLAMA | {"sliding_window": 6},
    "qwen2": LLAMA,
    "qwen3": LLAMA | {"head_dim": 8},
    "phi3": LLAMA | {"num_attention_heads": 2, "num_key_value_heads": 1},
    "gemma": LLAMA | {"head_dim": 8},
    "gemma2": WINDOW,
    "gemma3_text": WINDOW,
    "granite": LLAMA
    | {
        "attention_multiplier": 0.2,
        "embedding_multiplier": 3.0,
        "logits_scaling": 4.0,
        "residual_multiplier": 0.3,
    },
    "smollm3": LLAMA | {"no_rope_layers": [1, 0]},
    "exaone4": LLAMA | {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]},
    "seed_oss": LLAMA | {"head_dim": 8},
    "ministral": WINDOW,
    "vaultgemma": WINDOW,
}
# Like those, but queries are scaled with the position, from the 65th token on.
GROWING: dict[str, dict[str, Any]] = {
    "ministral3": LLAMA
    | {
        "head_dim": 8,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 1e4,
            "factor": 2.0,
            "original_max_position_embeddings": 64,
            "llama_4_scaling_beta": 0.1,
        },
    },
}
RECURRENT: dict[str, dict[str, Any]] = {
    "mamba": {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8},
    "jamba": LLAMA
    | {
        "num_experts": 2,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "use_mamba_kernels": False,
        "mamba_d_state": 8,
    },
    "lfm2": LLAMA | {"full_attn_idxs": [1], "layer_types": ["conv", "full_attention"], "conv_L_cache": 3},
    "granitemoehybrid": LLAMA
    | {
        "layer_types": ["mamba", "attention"],
        "num_local_experts": 2,
        "num_experts_per_tok": 1,
        "shared_intermediate_size": 32,
        "mamba_d_state": 8,
        "mamba_n_heads": 8,
        "mamba_d_head": 8,
        "mamba_expand": 2,
        "mamba_n_groups": 1,
    },
}
ENCODERS: dict[str, dict[str, Any]] = {"t5": T5, "mt5": T5, "bart": BART}
MLA = LLAMA | {
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 12,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "moe_intermediate_size": 16,
    "first_k_dense_replace": 1,
}
DELTA = LLAMA | {
    "head_dim": 8,
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
}
SSM = {"mamba_d_state": 8, "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_ssm": 64, "mamba_n_groups": 1}
LED = BART | {
    "max_encoder_position_embeddings": CONTEXT,
    "max_decoder_position_embeddings": CONTEXT,
    "attention_window": 8,
}
# What the others lack: sinks, chunked attention, keys wider than values, shared layers, states beside keys,
# positions behind a padding token, two attentions in a layer, a vision tower.
UNUSUAL: dict[str, dict[str, Any]] = {
    "gpt_oss": WINDOW | {"num_local_experts": 4, "layer_types": ["sliding_attention", "full_attention"]},
    "llama4_text": LLAMA
    | {
        "head_dim": 8,
        "num_local_experts": 2,
        "attention_chunk_size": 6,
        "intermediate_size_mlp": 64,
        "moe_layers": [1],
        "no_rope_layers": [1, 0],
    },
    "deepseek_v3": MLA,
    "deepseek_v32": MLA | {"index_topk": 6, "index_n_heads": 16, "index_head_dim": 8},
    "qwen3_next": DELTA,
    "falcon_h1": LLAMA | SSM | {"head_dim": 8},
    "roberta": UNGROUPED | {"is_decoder": True},
    "diffllama": LLAMA,
    "m2m_100": BART,
    "pegasus": BART,
    "switch_transformers": T5
    | {
        "num_experts": 2,
        "num_sparse_encoder_layers": 1,
        "num_sparse_decoder_layers": 1,
        "expert_capacity": 64,
    },
    "led": LED,
    "gemma3": {
        "text_config": WINDOW | {"vocab_size": VOCAB},
        "vision_config": {
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "image_size": 8,
            "patch_size": 4,
        },
        "mm_tokens_per_image": 4,
        "image_token_id": 0,
    },
}
UNCACHED: dict[str, dict[str, Any]] = {
    "openai-gpt": GPT2,
    "rwkv": {
        "hidden_size": 32,
        "attention_hidden_size": 32,
        "num_hidden_layers": 2,
        "context_length": CONTEXT,
    },
    # Without mems, which compute something else than the model's forward.
    "xlnet": {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64, "use_mems_eval": False},
}
# Computes something else with its own cache than without.
UNSERVED: dict[str, dict[str, Any]] = {
    "prophetnet": {
        "hidden_size": 32,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "num_encoder_layers": 2,
        "num_decoder_layers": 2,
        "num_encoder_attention_heads": 4,
        "num_decoder_attention_heads": 4,
        "max_position_embeddings": CONTEXT,
        "decoder_start_token_id": 1,
    }
}
FAMILIES = ATTENTION | RECURRENT | ENCODERS


def tiny(name: str, seed: int = 1, **settings: Any) -> PreTrainedModel:
    """A model of the family `name`, with `settings` in its config in addition to the table's."""
    known = FAMILIES | LLAMAS | GROWING | UNUSUAL | UNCACHED | UNSERVED
    special = {"vocab_size": VOCAB, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = AutoConfig.for_model(name.split("+")[0], **(special | known[name] | settings))
    choose_attention(config)
    make = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    torch.manual_seed(seed)
    model = make.from_config(config).eval().float()
    for parameter in model.parameters():
        # Biases and norms stay near their initial values: if they outweighed the input, all answers would be
        # equal.
        vector = parameter.dim() < 2
        parameter.data.mul_(vector).add_(torch.randn_like(parameter), alpha=0.05 if vector else 0.2)
    return model.to(DEVICE)
