"""Loads gpt-oss with its experts as they are in its safetensors, MXFP4: packed into native matrices.

A stack of experts has two tensors: `*_blocks` (experts, outputs, groups, 16), in each byte two values that
follow each other, and `*_scales` (experts, outputs, groups), exponents of two. transformers dequantizes them
on a CPU.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from inference.model.gguf.blocks import Blocks
from inference.model.gguf.kept_bits import has_library
from inference.model.gguf.replace_blocks import load_with_blocks
from inference.model.load.checkpoint_quantization import MXFP4, QUANTIZATION_CONFIG
from inference.model.load.formats import open_safetensors, read_safetensors, safetensors_files
from inference.model.load.generation_config import read_generation_config
from inference.model.quantization.schemes import matrix_bytes
from inference.native.packed_matrix import GROUP, NATIVE_DTYPES
from inference.native.structs import NativeDtype

BLOCKS, SCALES = "_blocks", "_scales"  # suffixes of the tensors of a stack


@dataclass(frozen=True, slots=True)
class MXFP4Stack:
    """The experts of a layer, whose matrices are transposed in the model."""

    blocks: Tensor
    scales: Tensor

    @property
    def shape(self) -> tuple[int, int, int]:
        """(experts, inputs, outputs)"""
        experts, outputs, groups = self.scales.shape
        return experts, groups * GROUP, outputs

    def experts(self) -> Iterator[Blocks]:
        """The blocks of each expert in GGUF's order, copied from the file one expert at a time."""
        order = torch.arange(self.shape[2])
        for blocks, scales in zip(self.blocks, self.scales, strict=True):
            rows = gguf_blocks(blocks, scales).flatten(1)
            yield Blocks(rows.numpy(), order, self.shape[1], NativeDtype.MXFP4)

    def dequantize(self, dtype: torch.dtype) -> Tensor:
        return torch.stack([blocks.dequantize(dtype).T for blocks in self.experts()])


def gguf_blocks(blocks: Tensor, scales: Tensor) -> Tensor:
    """Blocks (outputs, groups, 16) and scales (outputs, groups) in GGUF's order: (outputs, groups, 17).

    There the scale is first, and the low nibbles of the bytes have the first half of the values.
    """
    codes = torch.stack((blocks & 15, blocks >> 4), -1).flatten(-2)
    low, high = codes.chunk(2, -1)
    return torch.cat((scales[..., None], low | high << 4), -1)


def is_mxfp4(config: Mapping[str, Any]) -> bool:
    """Whether a config.json has experts in MXFP4."""
    quantization = config.get(QUANTIZATION_CONFIG)
    return isinstance(quantization, Mapping) and quantization.get("quant_method") == MXFP4


def has_mxfp4_weights(source: Path) -> bool:
    config = source / "config.json"
    return (
        config.is_file()
        and is_mxfp4(json.loads(config.read_text("utf-8")))
        and any(safetensors_files(source))
    )


def keeps_mxfp4(dtype: torch.dtype) -> bool:
    """Whether a model computed in `dtype` on the CPU keeps the bits of its experts."""
    return dtype in NATIVE_DTYPES and has_library()


def open_keeping_mxfp4(
    auto_class: Any, source: Path, *, config: Any, dtype: torch.dtype, **options: Any
) -> tuple[Any, set[str]]:
    """Load the model onto the CPU, and the names of its missing weights; without a library, dequantized."""
    if not keeps_mxfp4(dtype):
        return open_safetensors(auto_class, source, config=config, dtype=dtype, **options)
    delattr(config, QUANTIZATION_CONFIG)
    with torch.device("meta"):
        skeleton = auto_class.from_config(config)
    tensors = read_safetensors(source)
    names = [name.removesuffix(BLOCKS) for name in tensors if name.endswith(BLOCKS)]
    stacks = {name: MXFP4Stack(tensors.pop(name + BLOCKS), tensors.pop(name + SCALES)) for name in names}
    return load_with_blocks(skeleton, config, dtype, tensors, stacks, read_generation_config(source))


def bytes_saved(tensors: Mapping[str, Tensor], dtype: torch.dtype) -> int:
    """Bytes by which the packed experts are smaller than their values in `dtype`. Reads only shapes."""
    shapes = [tensor.shape for name, tensor in tensors.items() if name.endswith(SCALES)]
    return sum(
        math.prod(shape) * GROUP * dtype.itemsize
        - shape[0] * matrix_bytes(NativeDtype.MXFP4, shape[1], shape[2] * GROUP)
        for shape in shapes
    )
