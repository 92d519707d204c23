"""Checks the tensor table of a GGUF file: it may state what no loader can read, by damage or on purpose.

Knows the header; reads no tensor data.
"""

import math
from collections.abc import Iterable

from inference.model.load.gguf.file.cursor import NotGguf
from inference.model.load.gguf.file.header import GGML_TYPES, GgufHeader, GgufTensor
from inference.model.load.gguf.file.setting import ALIGNMENT, DEFAULT_ALIGNMENT

# Types that gguf-py does not dequantize: Q8_1, Q8_K, integers, float64 and Q1_0.
UNREADABLE = frozenset({9, 15, 24, 25, 26, 27, 28, 41})
BLOCK_COUNT = ".block_count"  # after the architecture: the layers of the model
MAX_LAYERS = 1 << 12


def check_tensors(header: GgufHeader) -> None:
    """Raise NotGguf, with the first thing that is wrong."""
    layers = header.numbers.get(f"{header.architecture}{BLOCK_COUNT}", 0)
    if not 0 <= layers <= MAX_LAYERS:
        raise NotGguf(f"a GGUF file of a model with {layers} layers; at most {MAX_LAYERS} can be loaded")
    tensors, alignment = header.tensors or (), header.numbers.get(ALIGNMENT, DEFAULT_ALIGNMENT)
    names: set[str] = set()
    for tensor in tensors:
        why = "is there twice" if tensor.name in names else tensor_error(tensor, alignment)
        if why:
            raise NotGguf(f"a GGUF file whose tensor {tensor.name!r} {why}")
        names.add(tensor.name)
    check_overlaps(tensors)


def tensor_error(tensor: GgufTensor, alignment: int) -> str:
    """What is wrong with a tensor by itself; empty if nothing is."""
    if tensor.ggml_type not in GGML_TYPES or tensor.ggml_type in UNREADABLE:
        return f"has values of type {tensor.ggml_type}, which cannot be read"
    if math.prod(tensor.shape) == 0:
        return f"has no values: its shape is {tensor.shape}"
    values, _ = GGML_TYPES[tensor.ggml_type]
    row = tensor.shape[0] if tensor.shape else 1
    if row % values:
        return f"has rows of {row} values, no multiple of the {values} of its blocks"
    if tensor.offset % alignment:
        return f"begins at byte {tensor.offset}, no multiple of {alignment}"
    return ""


def check_overlaps(tensors: Iterable[GgufTensor]) -> None:
    end, last = 0, ""
    for tensor in sorted(tensors, key=lambda each: each.offset):
        if tensor.offset < end:
            raise NotGguf(f"a GGUF file whose tensors {last!r} and {tensor.name!r} overlap")
        end, last = tensor.end, tensor.name
