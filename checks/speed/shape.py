"""The shape of a model as a decoder of native code, and a smaller one that takes its time in the same way.

A model that the fused runner does not support gets the decoder whose layers are as wide as its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import torch

from checks.memory.plan import Plan
from checks.speed.work import GGUF_EMBEDDING, GGUF_HEAD, dtype_of, dtype_of_tensor, packed_tensors
from inference.model.load.gguf.header import GgufTensor
from inference.model.quantization.find_weights import WeightRole
from inference.model.quantization.schemes import matrix_bytes
from inference.native.packed_matrix import NATIVE_DTYPES
from inference.native.sample_model import DecoderShape, LayerDtypes, same_dtype
from inference.native.structs import NativeDtype

INNER_STEP = 256  # inputs of the largest block of a format
PANELS = 1 << 10  # outputs: a smaller output layer is not taken
DEFAULT_HEAD_DIM, DEFAULT_INNER = 64, 4  # where a config has no heads; inner width ÷ hidden width
# Names of a layer's matrices in GGUF files (llama.cpp, gguf-py/gguf/constants.py): the first that exists.
GGUF_NAMES: Mapping[str, Sequence[str]] = {
    "query": ("attn_q", "attn_qkv"),
    "key": ("attn_k", "attn_qkv"),
    "value": ("attn_v", "attn_qkv"),
    "output": ("attn_output",),
    "gate": ("ffn_gate", "ffn_up"),
    "up": ("ffn_up",),
    "down": ("ffn_down",),
}


def decoder_shape(plan: Plan, model: Any) -> DecoderShape:
    """The shape of the plan's model, which is on the meta device."""
    assert plan.model_size is not None
    config, dtype = model.config.get_text_config(), getattr(torch, plan.model_size.dtype)
    hidden = count_of(config, "hidden_size") or DEFAULT_HEAD_DIM
    num_heads = count_of(config, "num_attention_heads") or max(1, hidden // DEFAULT_HEAD_DIM)
    num_layers, tensors = count_of(config, "num_hidden_layers") or 1, packed_tensors(plan)
    layer = same_dtype(dtype_of(plan, WeightRole.LAYER))
    return DecoderShape(
        hidden=hidden,
        num_heads=num_heads,
        num_kv_heads=count_of(config, "num_key_value_heads") or num_heads,
        head_dim=count_of(config, "head_dim") or max(1, hidden // num_heads),
        inner=count_of(config, "intermediate_size") or DEFAULT_INNER * hidden,
        vocab=count_of(config, "vocab_size") or 1,
        layers=[file_dtypes(plan, tensors, number, layer) for number in range(num_layers)],
        head=file_dtype(plan, tensors, (GGUF_HEAD, GGUF_EMBEDDING)) or dtype_of(plan, WeightRole.HEAD),
        dtype=NATIVE_DTYPES.get(dtype, NativeDtype.BF16),
    )


def count_of(config: Any, name: str) -> int:
    """A number of the config; the largest of those that differ by layer; 0 if there is none."""
    value = getattr(config, name, None)
    numbers = value if isinstance(value, (list, tuple)) else [value]
    return max((int(each) for each in numbers if isinstance(each, int)), default=0)


def file_dtypes(
    plan: Plan, tensors: Mapping[str, GgufTensor], number: int, default: LayerDtypes
) -> LayerDtypes:
    """The formats of a layer's matrices in a GGUF file; the default for one that the file has not."""
    return {
        place: file_dtype(plan, tensors, [f"blk.{number}.{name}.weight" for name in names]) or default[place]
        for place, names in GGUF_NAMES.items()
    }


def file_dtype(plan: Plan, tensors: Mapping[str, GgufTensor], names: Sequence[str]) -> NativeDtype | None:
    tensor = next((tensors[name] for name in names if name in tensors), None)
    return None if tensor is None else dtype_of_tensor(plan, tensor)


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
