"""DeviceMatrix: a packed weight in the memory of a torch device, for GPUs, which native matrices cannot use.

The quantized values are those of the native library. Few rows are multiplied by a Triton kernel; for many,
the weight is dequantized for torch's product, which takes a few percent of the product.
"""

from collections.abc import Iterator
from functools import reduce

import torch
from torch import Tensor
from torch.nn.functional import linear

from inference.model.quantization.dequantize import triton_kernels, unpack
from inference.model.quantization.round_weights import ROUND
from inference.model.quantization.schemes import DEVICE_BITS
from inference.model.quantization.words import pack_words
from inference.native.structs import NativeDtype

BLOCK_VALUES = 1 << 26  # that are dequantized at once
PACKED_VALUES = 1 << 23  # that are quantized at once: rounding takes some 40 bytes for each


class DeviceMatrix:
    """A packed weight (outputs, inputs). Create it with `pack`.

    values  words, see words.py; of a weight that is not quantized, the weight
    scales  see round_weights.py; None if the weight is not quantized
    bits    of a quantized value; 0 if the weight is not quantized
    nbytes  size of values and scales; the bias is the model's own
    """

    def __init__(
        self, values: Tensor, scales: Tensor | None, bits: int, inputs: int, bias: Tensor | None
    ) -> None:
        self.values, self.scales, self.bits, self.bias = values, scales, bits, bias
        self.outputs, self.inputs = len(values), inputs

    @classmethod
    def pack(cls, weight: Tensor, dtype: NativeDtype, bias: Tensor | None = None) -> "DeviceMatrix":
        """Pack a weight (outputs, inputs), on its device. Quantizes a block of rows at a time."""
        weight, bias = weight.detach(), None if bias is None else bias.detach()
        bits, (outputs, inputs) = DEVICE_BITS.get(dtype, 0), weight.shape
        if not bits:
            return cls(weight, None, bits, inputs, bias)
        rounded = (ROUND[dtype](weight[rows]) for rows in row_blocks(outputs, inputs, PACKED_VALUES))
        blocks = [(pack_words(integers, bits), scales) for integers, scales in rounded]
        values, scales = (torch.cat(each) for each in zip(*blocks, strict=True))
        return cls(values, scales, bits, inputs, bias)

    @property
    def device(self) -> torch.device:
        return self.values.device

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + (0 if self.scales is None else self.scales.nbytes)

    def unpack(self, dtype: torch.dtype) -> Tensor:
        """The dequantized weight (outputs, inputs), rounded to the dtype."""
        return unpack_rows(self.values, self.scales, self.inputs, self.bits, dtype)

    def unpacked_ranges(self, dtype: torch.dtype) -> Iterator[tuple[int, Tensor]]:
        """The first row and the dequantized values of each range of rows, rounded to the dtype."""
        for rows in row_blocks(self.outputs, self.inputs, BLOCK_VALUES):
            yield rows.start, self._unpack(rows, dtype)

    def rows(self, ids: Tensor) -> Tensor:
        """The dequantized rows of ids (…): (…, inputs), float32."""
        flat = ids.flatten()
        scales = None if self.scales is None else self.scales[flat]
        rows = unpack_rows(self.values[flat], scales, self.inputs, self.bits, torch.float32)
        return rows.view(*ids.shape, self.inputs)

    def linear(self, x: Tensor) -> Tensor:
        """x (…, inputs) @ weight.T + bias: (…, outputs), in the dtype of x."""
        output: Tensor = torch.ops.hearth.packed_linear(
            x, self.values, self.scales, self.bias, self.inputs, self.bits
        )
        return output

    def add_linear(self, x: Tensor, total: Tensor) -> None:
        """Add x (…, inputs) @ weight.T + bias to total (…, outputs), which is contiguous."""
        rows, sums = x.detach().reshape(-1, self.inputs), total.view(-1, self.outputs)
        size = max(1, BLOCK_VALUES // self.inputs)
        for block, columns in zip(
            row_blocks(self.outputs, self.inputs, BLOCK_VALUES), sums.split(size, 1), strict=True
        ):
            columns.addmm_(rows, self._unpack(block, x.dtype).T)
        if self.bias is not None:
            sums.add_(self.bias)

    def input_gradient(self, gradient: Tensor) -> Tensor:
        """gradient (…, outputs) @ weight: (…, inputs), in the dtype of the gradient."""
        weights = (
            self._unpack(rows, gradient.dtype) for rows in row_blocks(self.outputs, self.inputs, BLOCK_VALUES)
        )
        blocks = gradient.split(max(1, BLOCK_VALUES // self.inputs), -1)
        return reduce(Tensor.add_, (block @ weight for block, weight in zip(blocks, weights, strict=True)))

    def _unpack(self, rows: slice, dtype: torch.dtype) -> Tensor:
        if rows.stop - rows.start == self.outputs:  # slices would take the host as long as the launch
            return self.unpack(dtype)
        scales = None if self.scales is None else self.scales[rows]
        return unpack_rows(self.values[rows], scales, self.inputs, self.bits, dtype)


def unpack_rows(values: Tensor, scales: Tensor | None, inputs: int, bits: int, dtype: torch.dtype) -> Tensor:
    """The dequantized weight, also of a weight that is not quantized."""
    return values.to(dtype) if scales is None else unpack(values, scales, inputs, bits, dtype)


def row_blocks(outputs: int, inputs: int, max_values: int) -> Iterator[slice]:
    """Slices that cover all rows of a weight, each of at most max_values values."""
    size = max(1, max_values // inputs)
    return (slice(first, min(first + size, outputs)) for first in range(0, outputs, size))


def compute_linear(
    x: Tensor, values: Tensor, scales: Tensor | None, bias: Tensor | None, inputs: int, bits: int
) -> Tensor:
    """The operator: see DeviceMatrix.linear."""
    if scales is None:
        return linear(x, values.to(x.dtype), bias)
    rows = x.reshape(-1, inputs)
    kernels = triton_kernels(x.device, x.dtype)
    if kernels and len(rows) <= kernels.MAX_ROWS:
        output: Tensor = kernels.multiply(rows.contiguous(), values, scales, bias, bits)
        return output.view(*x.shape[:-1], len(values))
    if values.shape[0] * inputs <= BLOCK_VALUES:
        return linear(x, unpack(values, scales, inputs, bits, x.dtype), bias)
    output = x.new_empty(len(rows), len(values))
    for block in row_blocks(len(values), inputs, BLOCK_VALUES):
        weight = unpack(values[block], scales[block], inputs, bits, x.dtype)
        output[:, block] = linear(rows, weight, None if bias is None else bias[block])
    return output.view(*x.shape[:-1], len(values))


def linear_shape(
    x: Tensor, values: Tensor, scales: Tensor | None, bias: Tensor | None, inputs: int, bits: int
) -> Tensor:
    """The operator's output for the compiler, without values."""
    return x.new_empty(*x.shape[:-1], values.shape[0])


# An operator is opaque to torch's compiler: the compiled layers of a model call it as it is.
_library = torch.library.Library("hearth", "FRAGMENT")
_library.define(
    "packed_linear(Tensor x, Tensor values, Tensor? scales, Tensor? bias, int inputs, int bits) -> Tensor"
)
_library.impl("packed_linear", compute_linear, "CompositeExplicitAutograd")
torch.library.register_fake("hearth::packed_linear", linear_shape)
