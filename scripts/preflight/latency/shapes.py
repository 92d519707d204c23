"""The shapes of the largest well-known models: settings of their config.json on the Hub that affect memory.

A model with custom code is represented by the architecture that it was derived from.
"""

from scripts.preflight.sizes.shapes import SHAPES, TIED, Shape, llama, make_config

FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}
SHAPE_BY_NAME = {shape.name: shape for shape in SHAPES}
DEEPSEEK = SHAPE_BY_NAME["deepseek-ai/DeepSeek-V3"]
ONE_GROUP = {"n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}

LARGE_SHAPES = (
    SHAPE_BY_NAME["meta-llama/Llama-3.1-8B"],
    Shape("meta-llama/Llama-3.1-405B", llama("llama", 16384, 53248, 126, 128, 8, 128256)),
    SHAPE_BY_NAME["mistralai/Mixtral-8x7B-v0.1"],
    Shape(DEEPSEEK.name, {**DEEPSEEK.config, "quantization_config": FP8}, "fp8"),
    Shape("deepseek-ai/DeepSeek-V3-bf16", DEEPSEEK.config),
    Shape(
        "moonshotai/Kimi-K2-Instruct",
        {**DEEPSEEK.config, **ONE_GROUP, "num_attention_heads": 64, "n_routed_experts": 384},
    ),
    Shape(
        "Qwen/Qwen3-235B-A22B",
        llama(
            "qwen3_moe",
            4096,
            12288,
            94,
            64,
            4,
            151936,
            head_dim=128,
            num_experts=128,
            num_experts_per_tok=8,
            moe_intermediate_size=1536,
        ),
    ),
    SHAPE_BY_NAME["Qwen/Qwen3-Next-80B-A3B-Instruct"],
    Shape(
        "zai-org/GLM-4.5",
        llama(
            "glm4_moe",
            5120,
            12288,
            92,
            96,
            8,
            151552,
            head_dim=128,
            n_routed_experts=160,
            n_shared_experts=1,
            num_experts_per_tok=8,
            moe_intermediate_size=1536,
            first_k_dense_replace=3,
        ),
    ),
    Shape(
        "ai21labs/AI21-Jamba-Large-1.5",
        llama(
            "jamba",
            8192,
            24576,
            72,
            64,
            8,
            65536,
            num_experts=16,
            num_experts_per_tok=2,
            expert_layer_period=2,
            expert_layer_offset=1,
            attn_layer_period=8,
            attn_layer_offset=4,
            mamba_d_state=16,
            mamba_d_conv=4,
            mamba_expand=2,
            mamba_dt_rank=512,
            use_mamba_kernels=False,
        ),
    ),
    Shape(
        "google/gemma-3-27b-it",
        make_config(
            "gemma3",
            text_config=llama(
                "gemma3_text", 5376, 21504, 62, 32, 16, 262208, head_dim=128, sliding_window=1024, **TIED
            ),
            vision_config={
                "model_type": "siglip_vision_model",
                "hidden_size": 1152,
                "intermediate_size": 4304,
                "num_hidden_layers": 27,
                "num_attention_heads": 16,
                "image_size": 896,
                "patch_size": 14,
            },
        ),
    ),
    Shape(
        "bigscience/bloom", make_config("bloom", hidden_size=14336, n_layer=70, n_head=112, vocab_size=250880)
    ),
    Shape(
        "google/flan-t5-xxl",
        make_config(
            "t5",
            d_model=4096,
            d_kv=64,
            d_ff=10240,
            num_layers=24,
            num_heads=64,
            vocab_size=32128,
            feed_forward_proj="gated-gelu",
        ),
    ),
)
