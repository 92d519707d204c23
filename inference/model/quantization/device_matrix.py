"""DeviceMatrix: a packed weight in the memory of a torch device, for GPUs, which native matrices cannot use.

The quantized values are those of the native library. Torch computes the products with the dequantized weight,
a block of rows at a time: for thousands of tokens, dequantizing takes a few percent of the product.
"""

from collections.abc import Iterator
from functools import reduce

import torch
from torch import Tensor
from torch.nn.functional import linear

from inference.model.quantization.dequantize import DECODERS
from inference.model.quantization.round_weights import ENCODERS
from inference.native.structs import NativeDtype

BLOCK_VALUES = 1 << 26  # that are dequantized at once: a weight of a layer; of an output layer a share


class DeviceMatrix:
    """A packed weight (outputs, inputs). Create it with `pack`.

    values  as ENCODERS[dtype] returns them; scales: None if the dtype has none
    nbytes  size of values and scales; the bias is the model's own
    """

    def __init__(
        self, values: Tensor, scales: Tensor | None, dtype: NativeDtype, inputs: int, bias: Tensor | None
    ) -> None:
        self.values, self.scales, self.dtype, self.bias = values, scales, dtype, bias
        self.outputs, self.inputs = len(values), inputs

    @classmethod
    def pack(cls, weight: Tensor, dtype: NativeDtype, bias: Tensor | None = None) -> "DeviceMatrix":
        """Pack a weight (outputs, inputs), on its device. Quantizes a block of rows at a time."""
        weight = weight.detach()
        encoded = [ENCODERS[dtype](weight[rows]) for rows in row_blocks(*weight.shape)]
        values, scales = zip(*encoded, strict=True)
        bias = None if bias is None else bias.detach()
        return cls(
            torch.cat(values), None if scales[0] is None else torch.cat(scales), dtype, weight.shape[1], bias
        )

    @property
    def device(self) -> torch.device:
        return self.values.device

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + (0 if self.scales is None else self.scales.nbytes)

    def unpack(self, dtype: torch.dtype) -> Tensor:
        """The dequantized weight (outputs, inputs), rounded to the dtype."""
        return self._unpack(slice(None), dtype)

    def rows(self, ids: Tensor) -> Tensor:
        """The dequantized rows of ids (…): (…, inputs), float32."""
        return self._unpack(ids.flatten(), torch.float32).view(*ids.shape, self.inputs)

    def linear(self, x: Tensor) -> Tensor:
        """x (…, inputs) @ weight.T + bias: (…, outputs), in the dtype of x."""
        x, blocks = x.detach(), list(row_blocks(self.outputs, self.inputs))
        if len(blocks) == 1:
            return linear(x, self.unpack(x.dtype), self.bias)
        output = x.new_empty(*x.shape[:-1], self.outputs)
        for rows in blocks:
            bias = None if self.bias is None else self.bias[rows]
            output[..., rows] = linear(x, self._unpack(rows, x.dtype), bias)
        return output

    def input_gradient(self, gradient: Tensor) -> Tensor:
        """gradient (…, outputs) @ weight: (…, inputs), in the dtype of the gradient."""
        products = (
            gradient[..., rows] @ self._unpack(rows, gradient.dtype)
            for rows in row_blocks(self.outputs, self.inputs)
        )
        return reduce(Tensor.add_, products)

    def _unpack(self, rows: slice | Tensor, dtype: torch.dtype) -> Tensor:
        scales = None if self.scales is None else self.scales[rows]
        return DECODERS[self.dtype](self.values[rows], scales, dtype)[:, : self.inputs]


def row_blocks(outputs: int, inputs: int) -> Iterator[slice]:
    """Slices that cover all rows of a weight, each of at most BLOCK_VALUES values."""
    size = max(1, BLOCK_VALUES // inputs)
    return (slice(first, min(first + size, outputs)) for first in range(0, outputs, size))
