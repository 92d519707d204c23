"""The shape of a model as a decoder of native code, and a smaller one that takes its time in the same way.

A model that the fused runner does not support gets the decoder whose layers are as wide as its own.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import torch

from checks.speed.work import TokenMatrix
from inference.model.load.layer_numbers import largest_number
from inference.model.quantization.find_weights import WeightRole
from inference.model.quantization.gguf_mix import layer_number
from inference.model.quantization.schemes import matrix_bytes
from inference.native.packed_matrix import NATIVE_DTYPES
from inference.native.sample_model import DecoderShape, LayerDtypes
from inference.native.structs import NativeDtype

INNER_STEP = 256  # inputs of the largest block of a format
PANELS = 1 << 10  # outputs: a smaller output layer is not taken
DEFAULT_HEAD_DIM, DEFAULT_INNER = 64, 4  # where a config has no heads; inner width ÷ hidden width
# Names of a layer's weights in transformers' models and in GGUF files (llama.cpp, gguf-py/gguf/constants.py):
# the first that exists.
WEIGHT_NAMES: Mapping[str, Sequence[str]] = {
    "query": ("q_proj", "qkv_proj", "attn_q", "attn_qkv"),
    "key": ("k_proj", "qkv_proj", "attn_k", "attn_qkv"),
    "value": ("v_proj", "qkv_proj", "attn_v", "attn_qkv"),
    "output": ("o_proj", "attn_output"),
    "gate": ("gate_proj", "gate_up_proj", "ffn_gate", "ffn_up"),
    "up": ("up_proj", "gate_up_proj", "ffn_up"),
    "down": ("down_proj", "ffn_down"),
}


def decoder_shape(
    config: Any, matrices: Sequence[TokenMatrix], dtype: torch.dtype, has_int8_kv: bool = False
) -> DecoderShape:
    """The shape of a model. config: of its text. matrices: those of a token. dtype: of activations."""
    hidden = largest_number(config, "hidden_size") or DEFAULT_HEAD_DIM
    num_heads = largest_number(config, "num_attention_heads") or max(1, hidden // DEFAULT_HEAD_DIM)
    num_layers = largest_number(config, "num_hidden_layers") or 1
    head_dtypes = [each.dtype for each in matrices if each.role is WeightRole.HEAD]
    in_layers = [each for each in matrices if each.role is not WeightRole.HEAD]
    return DecoderShape(
        hidden=hidden,
        num_heads=num_heads,
        num_kv_heads=largest_number(config, "num_key_value_heads") or num_heads,
        head_dim=largest_number(config, "head_dim") or max(1, hidden // num_heads),
        inner=largest_number(config, "intermediate_size") or DEFAULT_INNER * hidden,
        vocab=largest_number(config, "vocab_size") or 1,
        layers=layer_dtypes(in_layers, num_layers),
        head=head_dtypes[0] if head_dtypes else usual_dtype(in_layers),
        dtype=NATIVE_DTYPES.get(dtype, NativeDtype.BF16),
        has_int8_kv=has_int8_kv,
    )


def layer_dtypes(matrices: Sequence[TokenMatrix], num_layers: int) -> list[LayerDtypes]:
    """The formats of each layer's matrices; that of most weights for one without a known name."""
    usual = usual_dtype(matrices)
    layers = [dict[str, NativeDtype]() for _ in range(num_layers)]
    for each in matrices:
        if 0 <= layer_number(each.name) < num_layers:
            name = each.name.removesuffix(".weight").rpartition(".")[2]
            layers[layer_number(each.name)][name] = each.dtype
    return [
        {
            place: next((dtypes[name] for name in names if name in dtypes), usual)
            for place, names in WEIGHT_NAMES.items()
        }
        for dtypes in layers
    ]


def usual_dtype(matrices: Sequence[TokenMatrix]) -> NativeDtype:
    """The format of most weights."""
    values = Counter[NativeDtype]()
    for each in matrices:
        values[each.dtype] += each.count * each.outputs * each.inputs
    return max(values, key=values.__getitem__, default=NativeDtype.BF16)


def layers_bytes(shape: DecoderShape, layers: range) -> int:
    """Packed bytes of some of the layers."""
    return sum(
        matrix_bytes(shape.layers[number][place], *size)
        for number in layers
        for place, size in shape.matrices.items()
    )


def skipped_products(shape: DecoderShape) -> int:
    """Multiply-adds of the last layer that the fused runner omits for tokens of a prompt without logits."""
    return shape.layer_values - sum(prod(shape.matrices[place]) for place in ("query", "key", "value"))


def reduce_shape(shape: DecoderShape, layer_bytes: int, head_bytes: int) -> DecoderShape:
    """The shape with fewer layers, evenly chosen, and a smaller output layer: some more than these bytes.

    A layer larger than layer_bytes becomes narrower.
    """
    every = len(shape.layers)
    all_bytes = layers_bytes(shape, range(every))
    count = min(every, -(-layer_bytes * every // all_bytes))
    layers = [shape.layers[(2 * number + 1) * every // (2 * count)] for number in range(count)]
    row_bytes = matrix_bytes(shape.head, PANELS, shape.hidden) / PANELS
    vocab = min(shape.vocab, max(PANELS, int(head_bytes / row_bytes) // PANELS * PANELS))
    reduced = replace(shape, layers=layers, vocab=vocab)
    return narrow(reduced, layer_bytes * every / all_bytes) if all_bytes > layer_bytes * every else reduced


def narrow(shape: DecoderShape, fraction: float) -> DecoderShape:
    """The shape with this fraction of the heads and of the MLP's width, as far as formats allow."""
    num_kv_heads = max(1, int(shape.num_kv_heads * fraction))
    return replace(
        shape,
        num_kv_heads=num_kv_heads,
        num_heads=num_kv_heads * max(1, shape.num_heads // shape.num_kv_heads),
        inner=max(INNER_STEP, int(shape.inner * fraction) // INNER_STEP * INNER_STEP),
    )
