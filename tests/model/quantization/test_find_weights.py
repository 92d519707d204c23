"""Which weights of a model are found: almost all of those of models with experts in modules of their own."""

from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from inference.model.quantization.find_weights import WeightRole, find_weights

SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 97}
MLA = {
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16,
    "v_head_dim": 16,
}


@pytest.mark.parametrize(
    ("model_type", "settings"),
    [
        ("jetmoe", {"num_key_value_heads": 2, "kv_channels": 32, "intermediate_size": 128}),
        (
            "llama4_text",
            {"intermediate_size": 128, "num_local_experts": 4, "moe_layers": [0, 1], "head_dim": 32},
        ),
        (
            "longcat_flash",
            MLA | {"ffn_hidden_size": 128, "expert_ffn_hidden_size": 64, "n_routed_experts": 4},
        ),
    ],
)
def test_experts_without_transformers_attribute_are_found(model_type: str, settings: dict[str, Any]) -> None:
    config = AutoConfig.for_model(model_type, **SIZES | settings)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    weights = list(find_weights(model, "meta"))
    assert any(each.role is WeightRole.EXPERTS for each in weights)
    assert sum(each.weight.numel() for each in weights) > 0.98 * sum(
        each.numel() for each in model.parameters()
    )
