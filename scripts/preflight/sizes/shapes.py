"""The shapes of well-known models: the settings in their config.json on the Hub that affect memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scripts.decoder_numbers import decoder_numbers

Config = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """A model.

    name         of its repository on the Hub
    config       settings of its config.json
    file_format  of its weights: "plain" (safetensors), "fp8" or "gguf"
    """

    name: str
    config: Config
    file_format: str = "plain"


def make_config(model_type: str, **numbers: Any) -> Config:
    return {"model_type": model_type, "dtype": "bfloat16", **numbers}


def llama(model_type: str, *numbers: int, **others: Any) -> Config:
    """The config of a decoder, see decoder_numbers."""
    defaults = {"tie_word_embeddings": False, "max_position_embeddings": 131072}
    return make_config(model_type, **decoder_numbers(*numbers, **(defaults | others)))


TIED = {"tie_word_embeddings": True}
LLAMA_1B = llama("llama", 2048, 8192, 16, 32, 8, 128256, head_dim=64, **TIED)
QWEN3_8B = llama("qwen3", 4096, 12288, 36, 32, 8, 151936, head_dim=128)
FP8 = {
    "quant_method": "fp8",
    "weight_block_size": [128, 128],
    "activation_scheme": "dynamic",
    "dequantize": True,  # as on a machine without FP8 matmul
}
LATENTS = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}

SHAPES = (
    Shape("meta-llama/Llama-3.2-1B", LLAMA_1B),
    Shape("meta-llama/Llama-3.1-8B", llama("llama", 4096, 14336, 32, 32, 8, 128256)),
    Shape("Qwen/Qwen2.5-0.5B", llama("qwen2", 896, 4864, 24, 14, 2, 151936, **TIED)),
    Shape("Qwen/Qwen2.5-7B", llama("qwen2", 3584, 18944, 28, 28, 4, 152064)),
    Shape("Qwen/Qwen3-0.6B", llama("qwen3", 1024, 3072, 28, 16, 8, 151936, head_dim=128, **TIED)),
    Shape("Qwen/Qwen3-8B", QWEN3_8B),
    Shape("mistralai/Mistral-7B-v0.1", llama("mistral", 4096, 14336, 32, 32, 8, 32000, sliding_window=4096)),
    Shape(
        "microsoft/Phi-3-mini-4k-instruct", llama("phi3", 3072, 8192, 32, 32, 32, 32064, pad_token_id=32000)
    ),
    Shape(
        "google/gemma-2-2b",
        llama("gemma2", 2304, 9216, 26, 8, 4, 256000, head_dim=256, sliding_window=4096, **TIED),
    ),
    Shape(
        "google/gemma-3-1b-it",
        llama("gemma3_text", 1152, 6912, 26, 4, 1, 262144, head_dim=256, sliding_window=512, **TIED),
    ),
    Shape(
        "deepseek-ai/DeepSeek-V2-Lite",
        llama(
            "deepseek_v2",
            2048,
            10944,
            27,
            16,
            16,
            102400,
            **LATENTS,
            q_lora_rank=None,
            moe_intermediate_size=1408,
            n_routed_experts=64,
            n_shared_experts=2,
            num_experts_per_tok=6,
            first_k_dense_replace=1,
        ),
    ),
    Shape(
        "deepseek-ai/DeepSeek-V3",
        llama(
            "deepseek_v3",
            7168,
            18432,
            61,
            128,
            128,
            129280,
            **LATENTS,
            q_lora_rank=1536,
            moe_intermediate_size=2048,
            n_routed_experts=256,
            n_shared_experts=1,
            num_experts_per_tok=8,
            n_group=8,
            topk_group=4,
            first_k_dense_replace=3,
        ),
    ),
    Shape(
        "Qwen/Qwen3-Next-80B-A3B-Instruct",
        llama(
            "qwen3_next",
            2048,
            5120,
            48,
            16,
            2,
            151936,
            head_dim=256,
            linear_num_key_heads=16,
            linear_num_value_heads=32,
            linear_key_head_dim=128,
            linear_value_head_dim=128,
            linear_conv_kernel_dim=4,
            num_experts=512,
            num_experts_per_tok=10,
            moe_intermediate_size=512,
            shared_expert_intermediate_size=512,
        ),
    ),
    Shape(
        "mistralai/Mixtral-8x7B-v0.1",
        llama("mixtral", 4096, 14336, 32, 32, 8, 32000, num_local_experts=8, num_experts_per_tok=2),
    ),
    Shape(
        "Qwen/Qwen3-30B-A3B",
        llama(
            "qwen3_moe",
            2048,
            6144,
            48,
            32,
            4,
            151936,
            head_dim=128,
            num_experts=128,
            num_experts_per_tok=8,
            moe_intermediate_size=768,
        ),
    ),
    Shape(
        "state-spaces/mamba-130m-hf",
        make_config("mamba", hidden_size=768, num_hidden_layers=24, state_size=16, vocab_size=50280, **TIED),
    ),
    Shape(
        "openai-community/gpt2",
        make_config("gpt2", n_embd=768, n_layer=12, n_head=12, n_positions=1024, vocab_size=50257),
    ),
    Shape(
        "bigscience/bloom-560m",
        make_config("bloom", hidden_size=1024, n_layer=24, n_head=16, vocab_size=250880),
    ),
    Shape(
        "google-t5/t5-small",
        make_config("t5", d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8, vocab_size=32128),
    ),
    Shape("Qwen/Qwen3-8B-FP8", {**QWEN3_8B, "quantization_config": FP8}, "fp8"),
    Shape("bartowski/Llama-3.2-1B-Instruct-GGUF", LLAMA_1B, "gguf"),
)
