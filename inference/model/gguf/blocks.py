"""The rows of a quantized matrix as they are in a GGUF file."""

from dataclasses import dataclass

import torch
from torch import Tensor

from inference.model.load.gguf.shards import Bytes
from inference.native.packed_matrix import PackedMatrix
from inference.native.structs import NativeDtype


@dataclass(frozen=True, slots=True)
class Blocks:
    """A quantized matrix of the file.

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
        return PackedMatrix.pack_gguf(torch.from_numpy(self.data), self.order, self.inputs, self.dtype, bias)

    def dequantize(self, dtype: torch.dtype) -> Tensor:
        return self.pack(None).unpack(dtype)
