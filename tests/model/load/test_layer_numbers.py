"""Numbers of a config that differ by layer."""

import pytest
from transformers import AutoConfig, LlamaConfig

from inference.model.load.layer_numbers import largest_number, layer_numbers

GEMMA_4 = {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"]}


def test_one_number_is_that_of_all_layers() -> None:
    config = LlamaConfig(hidden_size=64, head_dim=12)
    assert layer_numbers(config, "head_dim") == [12] and largest_number(config, "head_dim") == 12
    assert layer_numbers(config, "no_such_number") == [] and largest_number(config, "no_such_number") == 0


def test_a_list_has_one_for_each_layer() -> None:
    config = AutoConfig.for_model("gemma3n_text", num_hidden_layers=2, intermediate_size=[64, 32])
    assert layer_numbers(config, "intermediate_size") == [64, 32]
    assert largest_number(config, "intermediate_size") == 64


def test_a_number_that_the_whole_config_refuses_is_read_from_the_layers() -> None:
    config = AutoConfig.for_model("gemma4_text", **GEMMA_4, head_dim=8, global_head_dim=16)
    with pytest.raises(RuntimeError, match="per-layer"):
        config.head_dim
    assert layer_numbers(config, "head_dim") == [8, 16] and largest_number(config, "head_dim") == 16
