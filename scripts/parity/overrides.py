"""Settings of single model types without which their tiny models cannot be built or compared.

They replace what tiny_config.py sets, also within sub-configs.
"""

from typing import Any

from inference.model.load.device_dtype import POSITIONS_AFTER_PAD
from scripts.parity.sizes import CONTEXT, HEAD_DIM, HIDDEN

Settings = dict[str, Any]

ROPE = {"rope_type": "default", "rope_theta": 10_000.0}
INDEXER = {"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": HEAD_DIM, "indexer_budget": 4}
OVERRIDES: dict[str, Settings] = {
    "bamba": {"attn_layer_indices": [1]},
    "blt": {"encoder_hash_byte_group_vocab": 64},
    "cohere_compass_text": {
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_parameters": {"sliding_attention": ROPE, "full_attention": ROPE},
    },
    "dbrx": {"attn_config": {"rope_theta": 10_000.0, "clip_qkv": 8.0}},
    "deepseek_v2": {"num_experts_per_tok": 2, "n_group": 1, "topk_group": 1},
    "doge": {"keep_window_size": CONTEXT},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "gemma3n_text": {"num_kv_shared_layers": 2},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"]},
    "hrm_text": {"num_layers_per_stack": 2, "num_hidden_layers": 16},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "led": {"attention_window": 8},
    "mamba2": {"num_heads": 8, "head_dim": HEAD_DIM},
    "moshi": {"sliding_window": CONTEXT},
    "pegasus_x": {"num_global_tokens": 4, "block_size": 16, "tie_word_embeddings": False},
    "qwen4_exp": {"text_config": INDEXER | {"indexer_compress_ratio": 2}},
    "qwen4_exp_text": INDEXER | {"indexer_compress_ratio": 2},
    "recurrent_gemma": {"num_hidden_layers": 3},
    "reformer": {"is_decoder": True, "axial_pos_shape": [8, 16], "axial_pos_embds_dim": [16, 16]},
    "t5gemma": {"tie_word_embeddings": False},
    "vibevoice_asr": {
        "acoustic_tokenizer_encoder_config": {"depths": [1] * 7},
        "semantic_tokenizer_encoder_config": {"depths": [1] * 7},
    },
    "xlnet": {"use_mems_eval": False},
    "xlstm": {"hidden_size": 128, "embedding_dim": 128},
    "xmod": {"default_language": "en_XX"},
    "zamba": {
        "attention_hidden_size": 2 * HIDDEN,
        "num_hidden_layers": 4,
        "layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"],
    },
    "zamba2": {"attention_hidden_size": 2 * HIDDEN},
}

# Remarks on types whose answers are exact.
NOTES: dict[str, str] = {
    "blt": "generate fails: it finds no number of layers in the config",
    "reformer": "within a chunk of 64 tokens; longer texts are hashed randomly",
    "xlnet": "compared with generate without mems, which compute something else",
} | dict.fromkeys(
    POSITIONS_AFTER_PAD, "generate counts positions from 0; the model counts them from the end of its padding"
)
