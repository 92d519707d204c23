"""The stacked experts of a GGUF file, of which each expert becomes a packed matrix of the same bits.

A stack of the model may have the rows of two tensors of the file: gate and up. transformers' tensor
processors say which: they get the numbers of the rows in place of their values, and put them where the values
would be.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from inference.model.gguf.blocks import Blocks
from inference.model.gguf.kept_bits import PACKED_DTYPES
from inference.model.load.gguf.file.header import GgufTensor
from inference.model.load.gguf.file.shards import Bytes
from inference.model.quantization.find_weights import STACK


@dataclass(frozen=True, slots=True)
class StackRows:
    """The rows of one tensor in a stack of the model.

    name           the stack's parameter
    data           (experts, rows, bytes of a row), mapped from the file
    numbers        (experts, outputs): from 1, the row of the tensor's experts * rows; 0 where it has none
    is_transposed  the stack is (experts, inputs, outputs)
    """

    name: str
    tensor: GgufTensor
    data: Bytes
    numbers: np.ndarray[Any, Any]
    is_transposed: bool

    @property
    def is_whole(self) -> bool:
        """Whether the stack has every row, each once, and each in its own expert."""
        experts, rows, _ = self.data.shape
        expected = 1 + np.arange(experts * rows).reshape(experts, rows)
        return len(self.numbers) == experts and all(
            np.array_equal(np.sort(numbers[numbers > 0]), right)
            for numbers, right in zip(self.numbers, expected, strict=True)
        )


def stack_rows(process: Any, tensor: GgufTensor, data: Bytes) -> StackRows | None:
    """Where a processor puts the rows of a tensor; None if it does not put them into one stack."""
    experts, rows, _ = data.shape
    numbers = 1 + np.arange(experts * rows, dtype=np.int64).reshape(experts, rows, 1)
    placed: dict[str, Tensor] = {}
    process(weights=numbers, name=tensor.name, parsed_parameters={"tensors": placed})
    if len(placed) != 1:
        return None
    (name, stack), *_ = placed.items()
    if stack.dim() != STACK or 1 not in stack.shape[1:]:
        return None
    return StackRows(name, tensor, data, stack.flatten(1).numpy(), is_transposed=stack.shape[2] != 1)


@dataclass(frozen=True, slots=True)
class ExpertBlocks:
    """A stack of the model: all its rows, from tensors of the same type and width."""

    tensors: tuple[StackRows, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        """(experts, outputs, inputs), or (experts, inputs, outputs)"""
        first = self.tensors[0]
        (experts, outputs), inputs = first.numbers.shape, first.tensor.shape[0]
        return (experts, inputs, outputs) if first.is_transposed else (experts, outputs, inputs)

    def experts(self) -> Iterator[Blocks]:
        """The blocks of each expert, copied from the file one expert at a time."""
        tensor = self.tensors[0].tensor
        for expert in range(self.shape[0]):
            rows = self.rows_of(expert)
            order = torch.arange(len(rows))
            yield Blocks(rows, order, tensor.shape[0], PACKED_DTYPES[tensor.ggml_type])

    def rows_of(self, expert: int) -> Bytes:
        rows = np.empty((self.tensors[0].numbers.shape[1], self.tensors[0].data.shape[2]), dtype=np.uint8)
        for source in self.tensors:
            numbers = source.numbers[expert]
            flat = source.data.reshape(-1, source.data.shape[2])
            rows[numbers > 0] = flat[numbers[numbers > 0] - 1]
        return rows

    def dequantize(self, dtype: torch.dtype) -> Tensor:
        stack = torch.stack([blocks.dequantize(dtype) for blocks in self.experts()])
        return stack.mT if self.tensors[0].is_transposed else stack


def complete_stacks(rows_of_stacks: Iterable[StackRows]) -> dict[str, ExpertBlocks]:
    """The stacks by name whose rows are all there, each once, and of one type."""
    by_name: dict[str, list[StackRows]] = {}
    for rows in rows_of_stacks:
        by_name.setdefault(rows.name, []).append(rows)
    return {name: ExpertBlocks(tuple(tensors)) for name, tensors in by_name.items() if is_complete(tensors)}


def is_complete(tensors: list[StackRows]) -> bool:
    kinds = {
        (each.tensor.ggml_type, each.tensor.shape[0], each.numbers.shape, each.is_transposed)
        for each in tensors
    }
    if len(kinds) > 1 or not all(each.is_whole for each in tensors):
        return False
    owners = np.stack([each.numbers > 0 for each in tensors]).sum(0)
    return bool((owners == 1).all())
