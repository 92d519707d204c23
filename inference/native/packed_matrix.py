"""PackedMatrix: a weight matrix in the panel layout of the C library, and products with it.

Knows tensors and the library; knows no models, and does not choose the dtype of a weight.
"""

import ctypes
import mmap
import threading
from collections.abc import Iterator
from ctypes import byref

import torch
from torch import Tensor
from torch.nn.functional import pad

from inference.native import prefault, structs
from inference.native.library import library
from inference.native.structs import NativeDtype

NATIVE_DTYPES = {torch.float32: NativeDtype.F32, torch.bfloat16: NativeDtype.BF16}
# What a matrix is packed from without a change of its values. The last one is no dtype of products.
STORED_DTYPES = {**NATIVE_DTYPES, torch.float16: NativeDtype.F16}
PANEL, GROUP = 16, 32  # as in panel.h
PACKED_AT_ONCE = 64  # panels: limits the memory for converted values
COMPUTED_AT_ONCE = 2048  # rows: limits the memory for converted inputs
ALIGNED = 64  # bytes
_scratch = threading.local()


def ensure_library() -> None:
    """Build and load the library. Raises NativeUnavailable with the reason."""
    library()


class PackedMatrix:
    """A packed weight (outputs, inputs) that owns its memory. Create it with `pack`, or with packed values.

    struct  the argument for C functions; it points into this object's memory, so keep the object alive
    nbytes  size of values, scales and bias
    """

    device = torch.device("cpu")

    def __init__(
        self,
        outputs: int,
        inputs: int,
        dtype: NativeDtype,
        bias: Tensor | None,
        values: Tensor,
        scales: Tensor,
    ) -> None:
        """values, scales: packed, as uint8 of the sizes of `matrix_sizes`, aligned to ALIGNED."""
        self.dtype, self.outputs, self.inputs = dtype, outputs, inputs
        self.values, self.scales = values, scales
        self.bias = None if bias is None else bias.detach().to(torch.float32).contiguous().clone()
        padded = prefault.round_up(inputs, GROUP)
        addresses = [address_of(memory) for memory in (self.values, self.scales, self.bias)]
        self.struct = structs.Matrix(dtype, outputs, inputs, padded, *addresses)

    @classmethod
    def allocate(
        cls, outputs: int, inputs: int, dtype: NativeDtype, bias: Tensor | None = None
    ) -> "PackedMatrix":
        """A matrix without values. Raises NativeUnavailable."""
        size, scales_size = matrix_sizes(dtype, outputs, inputs)
        block = prefault.allocate_prefaulted(size)
        values = alloc(size) if block is None else torch.frombuffer(block, dtype=torch.uint8)
        return cls(outputs, inputs, dtype, bias, values, alloc(scales_size))

    @classmethod
    def pack(
        cls,
        weight: Tensor,
        dtype: NativeDtype,
        bias: Tensor | None = None,
        importance: Tensor | None = None,
    ) -> "PackedMatrix":
        """Pack a floating-point weight (outputs, inputs) and a bias (outputs,), both on the CPU.

        importance: what errors weigh by input (inputs,), for a dtype of GGUF_SOURCES; None: by the values.

        Keeps no reference to them. Converts a block of rows at a time, never the whole weight. Raises
        NativeUnavailable.
        """
        outputs, inputs = weight.shape
        matrix = cls.allocate(outputs, inputs, dtype, bias)
        if importance is not None:
            importance = pad(importance.float(), (0, -inputs % GROUP)).contiguous()
        for first, end in row_ranges(outputs):
            matrix.pack_rows(weight, first, end, importance)
        return matrix

    @classmethod
    def pack_gguf(
        cls, blocks: Tensor, order: Tensor, inputs: int, dtype: NativeDtype, bias: Tensor | None = None
    ) -> "PackedMatrix":
        """Pack the rows of a GGUF tensor (outputs, bytes of a row), uint8, with the same bits.

        Output n is row order[n]; order is int64. Raises NativeUnavailable.
        """
        matrix = cls.allocate(len(order), inputs, dtype, bias)
        places = (blocks.data_ptr(), order.contiguous().data_ptr())
        library().gguf_pack(byref(matrix.struct), *places, torch.get_num_threads())
        return matrix

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.scales.nbytes + (0 if self.bias is None else self.bias.nbytes)

    def pack_rows(self, weight: Tensor, first: int, end: int, importance: Tensor | None = None) -> None:
        """Pack rows [first, end) of the weight. importance: (padded inputs,), float32."""
        rows = weight.detach()[first:end]
        if self.dtype is NativeDtype.F16:
            rows = rows.to(torch.float16)
        elif rows.dtype not in NATIVE_DTYPES:
            rows = rows.to(torch.float32)
        if rows.stride(1) != 1:
            rows = rows.contiguous()
        place, dtype, threads = rows.data_ptr(), STORED_DTYPES[rows.dtype], torch.get_num_threads()
        source, weights = (place, dtype, rows.stride(0)), address_of(importance)
        library().matrix_pack(byref(self.struct), *source, first, end, weights, threads)

    def unpack(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """The dequantized weight (outputs, inputs). Converts a block of rows at a time."""
        weight = torch.empty(self.outputs, self.inputs, dtype=dtype)
        for first, end in row_ranges(self.outputs):
            self.unpack_rows(weight[first:end], first, end)
        return weight

    def unpacked_ranges(self, dtype: torch.dtype) -> Iterator[tuple[int, Tensor]]:
        """The first row and the dequantized values of each range of rows, rounded to the dtype."""
        for first, end in row_ranges(self.outputs):
            rows = torch.empty(end - first, self.inputs, dtype=dtype)
            self.unpack_rows(rows, first, end)
            yield first, rows

    def unpack_rows(self, to: Tensor, first: int, end: int) -> None:
        """Write the dequantized rows [first, end), whole panels, to `to` (end - first, inputs)."""
        rows = to if to.dtype in NATIVE_DTYPES else torch.empty(to.shape, dtype=torch.float32)
        place, dtype, threads = rows.data_ptr(), NATIVE_DTYPES[rows.dtype], torch.get_num_threads()
        library().matrix_unpack(byref(self.struct), place, dtype, rows.stride(0), first, end, threads)
        if rows is not to:
            to.copy_(rows)

    def rows(self, ids: Tensor) -> Tensor:
        """The dequantized rows of ids (…): (…, inputs), float32. Raises IndexError."""
        flat = ids.flatten().tolist()
        if flat and (min(flat) < 0 or max(flat) >= self.outputs):
            raise IndexError(f"row ids {min(flat)} to {max(flat)} are out of range: num_rows={self.outputs}")
        values = torch.empty(len(flat), self.inputs, dtype=torch.float32)
        for place, row in enumerate(flat):
            library().matrix_row(byref(self.struct), row, values[place].data_ptr())
        return values.view(*ids.shape, self.inputs)

    def linear(self, x: Tensor) -> Tensor:
        """x (…, inputs) @ weight.T + bias: (…, outputs), in the dtype of x.

        Computes dtypes other than float32 and bfloat16 in float32.
        """
        if x.dtype not in NATIVE_DTYPES:
            return self.linear(x.to(torch.float32)).to(x.dtype)
        rows = x.detach().reshape(-1, self.inputs).contiguous()
        output = rows.new_empty(*x.shape[:-1], self.outputs)  # no view, so that autograd may overwrite it
        native, matrix, size = library(), byref(self.struct), rows.itemsize
        for first in range(0, rows.shape[0], COMPUTED_AT_ONCE):
            count = min(COMPUTED_AT_ONCE, rows.shape[0] - first)
            native.linear(
                matrix,
                rows.data_ptr() + first * self.inputs * size,
                output.data_ptr() + first * self.outputs * size,
                NATIVE_DTYPES[rows.dtype],
                count,
                scratch(native.linear_bytes(matrix, count)).data_ptr(),
                torch.get_num_threads(),
            )
        return output

    def input_gradient(self, gradient: Tensor) -> Tensor:
        """gradient (…, outputs) @ weight: (…, inputs), in the dtype of the gradient, computed by torch.

        Dequantizes a block of rows at a time.
        """
        rows = gradient.reshape(-1, self.outputs)
        total = rows.new_zeros(rows.shape[0], self.inputs)
        block = torch.empty(min(PACKED_AT_ONCE * PANEL, self.outputs), self.inputs, dtype=rows.dtype)
        for first, end in row_ranges(self.outputs):
            weight = block[: end - first]
            self.unpack_rows(weight, first, end)
            total.addmm_(rows[:, first:end], weight)
        return total.view(*gradient.shape[:-1], self.inputs)


def matrix_sizes(dtype: NativeDtype, outputs: int, inputs: int) -> tuple[int, int]:
    """Bytes of the values and of the scales of a matrix. Raises NativeUnavailable."""
    shape = (dtype, outputs, inputs)
    return library().matrix_bytes(*shape), library().matrix_scale_bytes(*shape)


def row_ranges(outputs: int) -> Iterator[tuple[int, int]]:
    """Ranges [first, end) that cover all rows, in whole panels."""
    size = PACKED_AT_ONCE * PANEL
    return ((first, min(first + size, outputs)) for first in range(0, outputs, size))


def alloc(size: int) -> Tensor:
    """`size` bytes, aligned to ALIGNED.

    Large blocks are aligned to huge pages and request them: fewer TLB misses while a large matrix is read.
    """
    unit = prefault.HUGE if size >= prefault.HUGE else ALIGNED
    buffer = torch.empty(size + unit, dtype=torch.uint8)
    start = -buffer.data_ptr() % unit
    aligned = buffer[start : start + size]
    if unit == prefault.HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
        # Errors are ignored: huge pages affect only speed.
        whole_pages = size // prefault.HUGE * prefault.HUGE
        place, length = ctypes.c_void_p(aligned.data_ptr()), ctypes.c_size_t(whole_pages)
        ctypes.CDLL(None).madvise(place, length, mmap.MADV_HUGEPAGE)
    return aligned


def address_of(memory: Tensor | None) -> int | None:
    return None if memory is None or not memory.numel() else memory.data_ptr()


def scratch(size: int) -> Tensor:
    """This thread's buffer of at least `size` bytes, valid until the thread's next call."""
    memory = getattr(_scratch, "memory", None)
    if memory is None or memory.numel() < size:
        memory = _scratch.memory = alloc(size)
    return memory
