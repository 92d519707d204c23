"""The format of each weight in a mix of GGUF formats, as llama.cpp chooses it.

llama_tensor_get_type_impl and tensor_type_fallback of src/llama-quant.cpp.

Knows names and shapes of weights; no values.
"""

import re
from collections.abc import Iterable, Mapping

from inference.native.structs import NativeDtype

LAYER_NUMBER = re.compile(r"\.(\d+)\.")
# Ends of the names, in transformers' models, of weights that suffer most from few bits: those that compute
# the values of attention, and the last ones of a layer's MLP (gguf-py, tensor_mapping.py).
VALUES = (
    *("v_proj", "attention.wv", "attention.self.value", "v_lin", "attn.v", "query_key_value", "qkv_proj"),
    *("Wqkv", "attn.c_attn", "kv_b_proj", "in_proj_qkv"),
)
DOWN = (
    *("down_proj", "dense_4h_to_h", "mlp.c_proj", "mlp.fc2", "mlp.fc_out", "feed_forward.w2", "mlp.Wo"),
    *("ffn.lin2", "ffn.proj_2", "blocks.ff_out", "output_linear"),
)
SUPER_BLOCK = 256  # inputs of a block of the K formats
# The format with smaller blocks that takes the place of a K format.
SMALL_BLOCKS: Mapping[NativeDtype, NativeDtype] = {
    NativeDtype.Q4_K: NativeDtype.Q5_0,
    NativeDtype.Q5_K: NativeDtype.Q5_1,
    NativeDtype.Q6_K: NativeDtype.Q8_0,
}


def count_layers(names: Iterable[str]) -> int:
    """The layers of a model with these weights."""
    return 1 + max(map(layer_number, names), default=-1)


def layer_number(name: str) -> int:
    """The layer of a weight, from 0; -1 if it is in none."""
    match = LAYER_NUMBER.search(name)
    return int(match[1]) if match else -1


def gets_more_bits(name: str, num_layers: int) -> bool:
    """Whether llama.cpp's mixes named M give a weight of a layer the format with more bits."""
    layer, eighth = layer_number(name), num_layers // 8
    is_sensitive = layer >= 0 and name.removesuffix(".weight").endswith(VALUES + DOWN)
    return is_sensitive and (layer < eighth or layer >= 7 * num_layers // 8 or (layer - eighth) % 3 == 2)


def with_whole_blocks(dtype: NativeDtype, inputs: int) -> NativeDtype:
    """The format, or the one in its place for a weight whose inputs are no whole super-blocks."""
    return dtype if inputs % SUPER_BLOCK == 0 else SMALL_BLOCKS.get(dtype, dtype)
