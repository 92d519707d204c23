"""The rows of a matrix as they are in a GGUF file."""

from dataclasses import dataclass

import torch
from torch import Tensor

from inference.model.load.gguf.file.shards import Bytes
from inference.native.packed_matrix import PackedMatrix
from inference.native.structs import NativeDtype


@dataclass(frozen=True, slots=True)
class Blocks:
    """A matrix of the file, quantized or of float16.

    data   (outputs, bytes of a row)
    order  (outputs,): the row of each output, int64
    """

    data: Bytes
    order: Tensor
    inputs: int
    dtype: NativeDtype

    @property
    def shape(self) -> tuple[int, int]:
        """(outputs, inputs)"""
        return len(self.order), self.inputs

    def pack(self, bias: Tensor | None) -> PackedMatrix:
        rows = torch.from_numpy(self.data)
        if self.dtype is NativeDtype.F16:
            halves, is_moved = rows.view(torch.float16), bool((self.order.diff() != 1).any())
            return PackedMatrix.pack(halves[self.order] if is_moved else halves, self.dtype, bias)
        return PackedMatrix.pack_gguf(rows, self.order, self.inputs, self.dtype, bias)

    def dequantize(self, dtype: torch.dtype) -> Tensor:
        return self.pack(None).unpack(dtype)
