"""Loads a GGUF file with its matrices as they are: packed into native matrices of the same bits.

transformers' tensor processors say which parameter a tensor is, and which of its rows is which output.
Tensors of other formats, and those whose values a processor changes, are dequantized as transformers does it.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from torch import Tensor

from inference.model.gguf.blocks import Blocks
from inference.model.gguf.expert_blocks import ExpertBlocks, StackRows, complete_stacks, stack_rows
from inference.model.gguf.kept_bits import PACKED_DTYPES, dequantized_formats, is_packable, keeps_bits
from inference.model.gguf.replace_blocks import FileBlocks, load_with_blocks
from inference.model.load.formats import open_gguf
from inference.model.load.gguf.config.tensor_config import required
from inference.model.load.gguf.file.header import GgufHeader, GgufTensor
from inference.model.load.gguf.file.shards import Bytes, merged_header, read_files
from inference.model.load.gguf.tensors.processors import map_names
from inference.model.load.gguf.tensors.unused_tensors import check_all_used
from inference.model.quantization.find_weights import STACK

log = logging.getLogger(__name__)


def open_keeping_bits(
    auto_class: Any, source: Path, *, config: Any, dtype: torch.dtype, **options: Any
) -> tuple[Any, set[str]]:
    """Load the model onto the CPU, and the names of its missing weights.

    A file whose bits cannot be kept is dequantized. Raises NotGguf for shards that do not form one model,
    and for a tensor that no parameter takes.
    """
    files = read_files(source)
    header = merged_header(source, files)
    if formats := dequantized_formats(header):
        log.info("%s: weights in %s are dequantized to %s", source.name, formats, dtype)
    if not keeps_bits(header, dtype):
        return open_gguf(auto_class, source, config=config, dtype=dtype, **options)
    with torch.device("meta"):
        skeleton = auto_class.from_config(config)
    check_all_used(header, skeleton)
    values, blocks = read_tensors(files, skeleton, config, dtype)
    model, missing = load_with_blocks(skeleton, config, dtype, values, blocks)
    return model, required(missing)


def read_tensors(
    files: Sequence[tuple[GgufHeader, Bytes]], skeleton: Any, config: Any, dtype: torch.dtype
) -> tuple[dict[str, Tensor], FileBlocks]:
    """The tensors by the names of their parameters, and the blocks of those that stay packed."""
    processor, names = map_names(files[0][0].architecture, skeleton, config)
    process = partial(processor.process, tensor_key_mapping=names)
    blocks = read_blocks(files, names, process, dtype)
    values: dict[str, Tensor] = {}
    stacked = stacked_tensors(blocks)
    placed: dict[str, Tensor] = {}  # by processors that write a tensor themselves
    for tensor, data in tensors_of(files):
        if tensor.name in stacked or names.get(tensor.name) in blocks:
            continue
        result = process(
            weights=dequantize(tensor, data), name=tensor.name, parsed_parameters={"tensors": placed}
        )
        if result.name in names:
            values[names[result.name]] = torch.from_numpy(np.copy(result.weights)).to(dtype)
    return values | {name: value.to(dtype) for name, value in placed.items()}, blocks


def read_blocks(
    files: Sequence[tuple[GgufHeader, Bytes]], names: Mapping[str, str], process: Any, dtype: torch.dtype
) -> FileBlocks:
    """The blocks of the tensors whose rows a processor only moves, by the names of their parameters."""
    blocks: dict[str, Blocks | ExpertBlocks] = {}
    stacks: list[StackRows] = []
    for tensor, data in tensors_of(files):
        if not is_packable(tensor, dtype):
            continue
        if len(tensor.shape) == STACK:
            stacks += filter(None, [stack_rows(process, tensor, data)])
        elif (name := names.get(tensor.name)) and (order := row_order(process, tensor)) is not None:
            blocks[name] = Blocks(data, order, tensor.shape[0], PACKED_DTYPES[tensor.ggml_type])
    return blocks | complete_stacks(stacks)


def stacked_tensors(blocks: FileBlocks) -> set[str]:
    stacks = (each for each in blocks.values() if isinstance(each, ExpertBlocks))
    return {source.tensor.name for stack in stacks for source in stack.tensors}


def tensors_of(files: Sequence[tuple[GgufHeader, Bytes]]) -> Iterator[tuple[GgufTensor, Bytes]]:
    """Each tensor and its bytes, of a matrix (rows, bytes of a row)."""
    for header, file in files:
        for tensor in header.tensors or ():
            data = file[header.data_offset + tensor.offset : header.data_offset + tensor.end]
            yield tensor, data.reshape(*tensor.shape[:0:-1], -1)


def dequantize(tensor: GgufTensor, data: Bytes) -> np.ndarray[Any, Any]:
    """The values of a tensor, whose dimensions are in torch's order."""
    values = gguf.dequantize(np.array(data), gguf.GGMLQuantizationType(tensor.ggml_type))
    return values.reshape(tensor.shape[::-1])


def row_order(process: Any, tensor: GgufTensor) -> Tensor | None:
    """The row of a matrix that is each output; None if its values have to be dequantized.

    The processor gets the numbers of the rows in place of their values, and must only move them. Some expect
    as many columns as the matrix has.
    """
    rows = np.arange(tensor.shape[1], dtype=np.int64)
    for columns in (1, tensor.shape[0]):
        numbers = np.broadcast_to(rows[:, None], (len(rows), columns))
        with suppress(ValueError):  # of numpy, for a width that a processor does not expect
            result = process(weights=numbers, name=tensor.name, parsed_parameters={"tensors": {}})
            break
    else:
        return None
    if result.name != tensor.name or np.shape(result.weights) != numbers.shape:
        return None
    order = np.array(result.weights[:, 0])
    is_moved_whole = np.array_equal(result.weights, np.broadcast_to(order[:, None], numbers.shape))
    return torch.from_numpy(order) if is_moved_whole and np.array_equal(np.sort(order), rows) else None
