"""Loads a model of which some parameters are blocks of a file, and packs these with their bits.

Knows transformers' loader and packed weights; not where the blocks come from.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from inference.model.quantization.find_weights import MATRIX, FoundWeight, find_weights, owners_of
from inference.model.quantization.packed_tensor import PackedExperts, PackedTensor, PackedWeight
from inference.model.quantization.replace import ONE_BY_ONE, set_parameter
from inference.native.packed_matrix import PackedMatrix


class MatrixBlocks(Protocol):
    """A weight as a file has it. shape: that of the parameter."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def pack(self, bias: Tensor | None) -> PackedMatrix: ...

    def dequantize(self, dtype: torch.dtype) -> Tensor: ...


@runtime_checkable
class BlockStack(Protocol):
    """The stacked weights of a layer's experts. shape: that of the parameter, (experts, …)."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def experts(self) -> Iterator[MatrixBlocks]:
        """The blocks of each expert."""
        ...

    def dequantize(self, dtype: torch.dtype) -> Tensor: ...


FileBlocks = Mapping[str, MatrixBlocks | BlockStack]  # by the names of parameters


def load_with_blocks(
    skeleton: Any,
    config: Any,
    dtype: torch.dtype,
    values: dict[str, Tensor],
    blocks: FileBlocks,
    generation_config: Any = None,
) -> tuple[Any, set[str]]:
    """The model, and the names of its missing weights. Empties `values`.

    skeleton           the model on the meta device
    values             the parameters without blocks. The others are loaded as one NaN, expanded to their
                       shape: it takes no memory, and transformers ties parameters that are equal
    generation_config  that of the model's folder; None: it has none
    """
    values |= {
        name: torch.full((), math.nan, dtype=dtype).expand(each.shape) for name, each in blocks.items()
    }
    model, report = type(skeleton).from_pretrained(
        None,
        config=config,
        state_dict=values,
        dtype=dtype,
        generation_config=generation_config,
        output_loading_info=True,
    )
    values.clear()
    pack_blocks(model, blocks)
    return model, set(report["missing_keys"])


def pack_blocks(model: Any, blocks: FileBlocks) -> None:
    """Replace the parameters that have blocks by packed weights; dequantize those that cannot be packed."""
    names = {id(parameter): name for name, parameter in model.named_parameters() if name in blocks}
    packable = {id(weight.weight): weight for weight in find_weights(model)}
    if any(isinstance(each, BlockStack) for each in blocks.values()):
        model.set_experts_implementation(ONE_BY_ONE)
    for parameter, owners in list(owners_of(model)):
        if id(parameter) in names:
            target, source = packable.get(id(parameter)), blocks[names[id(parameter)]]
            set_parameter(
                packed_weight(target, source) if target else source.dequantize(parameter.dtype), owners
            )


def packed_weight(target: FoundWeight, source: MatrixBlocks | BlockStack) -> PackedTensor:
    if isinstance(source, BlockStack):
        return PackedExperts([packed_matrix(target, blocks) for blocks in source.experts()])
    return packed_matrix(target, source)


def packed_matrix(target: FoundWeight, source: MatrixBlocks) -> PackedWeight:
    shape, dtype = tuple(target.weight.shape[-MATRIX:]), target.weight.dtype
    return PackedWeight(source.pack(target.bias), shape, dtype, target.bias, target.is_transposed)
