"""The formats of a mix are those that llama.cpp gives the same weights."""

import pytest
from gguf import MODEL_TENSOR
from gguf.tensor_mapping import TensorNameMap

from inference.model.quantization.find_weights import find_weights
from inference.model.quantization.gguf_mix import count_layers, gets_more_bits, layer_number
from inference.model.quantization.schemes import GGUF_SCHEMES, Q4_0, Q4_K_M, Q5_K_M, Q6_K, Q8_0, packed_dtypes
from tests.tiny_models.families import tiny

FOREIGN = ("block_sparse_moe", "residual_mlp")  # in names of checkpoints, not of transformers' models
SENSITIVE = ("ATTN_V", "ATTN_QKV", "ATTN_KV_B", "FFN_DOWN", "FFN_DOWN_EXP", "FFN_DOWN_SHEXP")
OTHERS = ("ATTN_Q", "ATTN_K", "ATTN_OUT", "FFN_UP", "FFN_GATE", "FFN_UP_EXP", "FFN_GATE_EXP")
# What llama-quantize made of a Llama with 12 layers: those with more bits.
MORE_BITS_OF_12 = {0, 3, 6, 9, 10, 11}


def names_of(kind: str) -> tuple[str, ...]:
    return tuple(TensorNameMap.block_mappings_cfg[MODEL_TENSOR[kind]])


@pytest.mark.parametrize("prefix", ["model.layers.0.", "transformer.h.0.", "gpt_neox.layers.0."])
def test_the_sensitive_weights_are_those_of_gguf_py(prefix: str) -> None:
    for kinds, expected in ((SENSITIVE, True), (OTHERS, False)):
        names = {name.replace("{bid}", "0") for kind in kinds for name in names_of(kind)}
        known = [
            name for name in names if name.startswith(prefix) and not any(each in name for each in FOREIGN)
        ]
        assert known
        assert not [name for name in known if gets_more_bits(f"{name}.weight", 1) is not expected]


def test_a_model_of_12_layers_has_more_bits_in_the_layers_of_llama_cpp() -> None:
    layers = {
        layer for layer in range(12) if gets_more_bits(f"model.layers.{layer}.mlp.down_proj.weight", 12)
    }
    assert layers == MORE_BITS_OF_12


def test_layers_are_counted_by_their_numbers() -> None:
    names = ["lm_head.weight", "model.layers.11.mlp.up_proj.weight", "model.layers.2.mlp.experts.down_proj"]
    assert count_layers(names) == 12
    assert [layer_number(name) for name in names] == [-1, 11, 2]


# layer 0 has q, k, v, o, gate, up, down, in transformers' order
MIXES = {
    Q8_0: ["Q8_0"] * 9,
    Q6_K: ["Q6_K"] * 9,
    Q5_K_M: ["Q5_K", "Q5_K", "Q5_K", "Q6_K", "Q5_K", "Q5_K", "Q5_K", "Q6_K", "Q6_K"],
    Q4_K_M: ["Q4_K", "Q4_K", "Q4_K", "Q6_K", "Q4_K", "Q4_K", "Q4_K", "Q6_K", "Q6_K"],
    Q4_0: [*["Q4_0"] * 8, "Q6_K"],
}


@pytest.mark.parametrize("scheme", GGUF_SCHEMES)
def test_weights_have_the_formats_of_the_mix(scheme: str) -> None:
    model = tiny("llama", hidden_size=256, intermediate_size=512, num_hidden_layers=1, num_key_value_heads=4)
    dtypes = packed_dtypes(list(find_weights(model)), scheme)
    assert [dtype.name for dtype in dtypes] == MIXES[scheme]


def test_weights_without_whole_super_blocks_have_smaller_ones() -> None:
    model = tiny("llama", hidden_size=64, intermediate_size=512, num_hidden_layers=1, num_key_value_heads=4)
    *layers, _ = list(find_weights(model))
    dtypes = packed_dtypes(layers, Q4_K_M)
    formats = {(weight.inputs, dtype.name) for weight, dtype in zip(layers, dtypes, strict=True)}
    assert formats == {(64, "Q5_0"), (64, "Q8_0"), (512, "Q6_K")}
