"""The KV cost of a model that cannot be measured."""

from types import SimpleNamespace

from transformers import AutoConfig

from checks.memory.kv_formula import estimate_kv_cost
from inference.model.kv_cost import KVCost

SIZES = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}


def test_a_token_takes_keys_and_values_of_all_layers_with_a_cache() -> None:
    config = SimpleNamespace(**SIZES, layer_types=["full_attention", "conv", "sliding_attention"])
    assert estimate_kv_cost(config, 2) == KVCost(2 * 2 * 2 * 16 * 2)  # layers, keys and values, heads, width


def test_layers_with_heads_of_several_widths_are_added_up() -> None:
    config = AutoConfig.for_model(
        "gemma4_unified_text", **SIZES, head_dim=16, global_head_dim=32, num_hidden_layers=2
    )
    widths = [layer.head_dim for layer in config.per_layer_config]
    assert sorted(set(widths)) == [16, 32]
    assert estimate_kv_cost(config, 4) == KVCost(2 * 2 * sum(widths) * 4)


def test_a_config_that_does_not_count_its_layers_has_none() -> None:
    assert estimate_kv_cost(AutoConfig.for_model("blt"), 4) == KVCost()
