"""Settings of GGUF files that transformers' table of config keys lacks, and two architectures.

Without them a model has the default sizes of its config class, whatever its file says.
"""

from collections.abc import Mapping

# model type → the file's key, without its architecture → the config's key
MISSING_KEYS: Mapping[str, Mapping[str, str]] = {
    "falcon": {
        "attention.layer_norm_epsilon": "layer_norm_epsilon",
        "attention.head_count_kv": "num_kv_heads",
        "feed_forward_length": "ffn_hidden_size",
    },
    "gemma": {
        "context_length": "max_position_embeddings",
        "block_count": "num_hidden_layers",
        "feed_forward_length": "intermediate_size",
        "embedding_length": "hidden_size",
        "rope.freq_base": "rope_theta",
        "attention.key_length": "head_dim",
        "attention.head_count": "num_attention_heads",
        "attention.head_count_kv": "num_key_value_heads",
        "attention.layer_norm_rms_epsilon": "rms_norm_eps",
        "vocab_size": "vocab_size",
    },
    "gemma2": {
        "attn_logit_softcapping": "attn_logit_softcapping",
        "final_logit_softcapping": "final_logit_softcapping",
    },
    "gemma3": {
        "final_logit_softcapping": "final_logit_softcapping",
        "rope.freq_base_swa": "rope_local_base_freq",
    },
    "llama": {"attention.key_length": "head_dim"},
    "nemotron": {"attention.layer_norm_epsilon": "norm_eps", "attention.key_length": "head_dim"},
    "phi2": {
        "context_length": "max_position_embeddings",
        "block_count": "num_hidden_layers",
        "feed_forward_length": "intermediate_size",
        "embedding_length": "hidden_size",
        "rope.freq_base": "rope_theta",
        "attention.head_count": "num_attention_heads",
        "attention.head_count_kv": "num_key_value_heads",
        "attention.layer_norm_epsilon": "layer_norm_eps",
        "vocab_size": "vocab_size",
    },
    "qwen2": {"attention.key_length": "head_dim"},
    "qwen2_moe": {
        "expert_feed_forward_length": "moe_intermediate_size",
        "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    },
    "qwen3": {"attention.key_length": "head_dim"},
    "starcoder2": {
        "attention.head_count_kv": "num_key_value_heads",
        "rope.freq_base": "rope_theta",
        "vocab_size": "vocab_size",
    },
    "stablelm": {"rope.freq_base": "rope_theta"},
    "gpt2": {
        "context_length": "n_positions",
        "feed_forward_length": "n_inner",
        "vocab_size": "vocab_size",
    },
    "t5": {"decoder_block_count": "num_decoder_layers"},
    "umt5": {"decoder_block_count": "num_decoder_layers"},
    "qwen3_moe": {"expert_feed_forward_length": "moe_intermediate_size"},
    "gpt_oss": {
        "attention.key_length": "head_dim",
        "attention.sliding_window": "sliding_window",
        "expert_feed_forward_length": "intermediate_size",
    },
}


def add_missing_keys() -> None:
    """Complete the tables, which are imported only for a GGUF file: that takes 0.3 s."""
    from transformers.integrations.ggml import GGUF_CONFIG_MAPPING
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES

    GGUF_SUPPORTED_ARCHITECTURES.extend(MISSING_KEYS.keys() - GGUF_SUPPORTED_ARCHITECTURES)
    for model_type, keys in MISSING_KEYS.items():
        GGUF_CONFIG_MAPPING.setdefault(model_type, {}).update(keys)
