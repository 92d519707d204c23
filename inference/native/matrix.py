"""A weight matrix in the panels that the C library multiplies with, and what is computed with it.

Knows tensors and the library; nothing of models, nor of who decides in what form a weight is kept.
"""

import ctypes
import mmap
import threading
from collections.abc import Iterator
from ctypes import byref

import torch
from torch import Tensor

from inference.native import prepared, structs
from inference.native.library import library
from inference.native.structs import Kind

FORMS = {torch.float32: Kind.F32, torch.bfloat16: Kind.BF16}
PANEL, GROUP = 16, 32  # as in matrix.h
PACKED_AT_ONCE = 64  # panels: more would need more memory where their values have to be converted
COMPUTED_AT_ONCE = 2048  # rows: more would need more memory for their inputs
ALIGNED = 64  # bytes
HUGE = 1 << 21  # bytes of a huge page: fewer of them have to be found while a large matrix is read


def ready() -> None:
    """Have the library built and loaded. Raises Unbuilt with the reason where it cannot be."""
    library()


class Matrix:
    """A weight (outputs, inputs) that owns its memory. Made by `pack`.

    struct   what C functions are given: it points into this object's memory, and is valid as long as it lives
    nbytes   of all its memory
    """

    def __init__(self, outputs: int, inputs: int, kind: Kind, bias: Tensor | None) -> None:
        self.kind, self.outputs, self.inputs = kind, outputs, inputs
        self.values = made_ready(library().matrix_bytes(kind, outputs, inputs))
        self.scales = reserved(library().matrix_scale_bytes(kind, outputs, inputs))
        self.bias = None if bias is None else bias.detach().to(torch.float32).contiguous().clone()
        padded = -(-inputs // GROUP) * GROUP
        places = [address(memory) for memory in (self.values, self.scales, self.bias)]
        self.struct = structs.Matrix(kind, outputs, inputs, padded, *places)

    @classmethod
    def pack(cls, weight: Tensor, kind: Kind, bias: Tensor | None = None) -> "Matrix":
        """The matrix of a weight (outputs, inputs) of floats and a bias (outputs,), both on the CPU.

        Neither is kept, and no copy of the weight as a whole is made. Raises Unbuilt.
        """
        outputs, inputs = weight.shape
        made = cls(outputs, inputs, kind, bias)
        for first, end in parts(outputs):
            made.take(weight, first, end)
        return made

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.scales.nbytes + (0 if self.bias is None else self.bias.nbytes)

    def take(self, weight: Tensor, first: int, end: int) -> None:
        """Pack rows [first, end) of the weight."""
        rows = weight.detach()[first:end]
        if rows.dtype not in FORMS:
            rows = rows.to(torch.float32)
        if rows.stride(1) != 1:
            rows = rows.contiguous()
        place, form, threads = rows.data_ptr(), FORMS[rows.dtype], torch.get_num_threads()
        library().matrix_pack(byref(self.struct), place, form, rows.stride(0), first, end, threads)

    def unpack(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """The weight as it is computed with: (outputs, inputs). There is no copy of it in another dtype."""
        made = torch.empty(self.outputs, self.inputs, dtype=dtype)
        for first, end in parts(self.outputs):
            self.give(made[first:end], first, end)
        return made

    def give(self, to: Tensor, first: int, end: int) -> None:
        """Unpack rows [first, end)."""
        rows = to if to.dtype in FORMS else torch.empty(to.shape)
        place, form, threads = rows.data_ptr(), FORMS[rows.dtype], torch.get_num_threads()
        library().matrix_unpack(byref(self.struct), place, form, rows.stride(0), first, end, threads)
        if rows is not to:
            to.copy_(rows)

    def copy_row(self, row: int, to: Tensor) -> None:
        library().matrix_row(byref(self.struct), row, to.data_ptr())

    def rows(self, ids: Tensor) -> Tensor:
        """The rows of ids (…), as they are computed with: (…, inputs), float32. Raises IndexError."""
        flat = ids.flatten().tolist()
        if flat and (min(flat) < 0 or max(flat) >= self.outputs):
            raise IndexError(f"rows {min(flat)} to {max(flat)} of a matrix of {self.outputs}")
        found = torch.empty(len(flat), self.inputs)
        for place, row in enumerate(flat):
            self.copy_row(row, found[place])
        return found.view(*ids.shape, self.inputs)

    def linear(self, x: Tensor) -> Tensor:
        """x (…, inputs) times the matrix, the bias added: (…, outputs), in the dtype of x. float16 and others
        are computed as float32."""
        if x.dtype not in FORMS:
            return self.linear(x.to(torch.float32)).to(x.dtype)
        rows = x.detach().reshape(-1, self.inputs).contiguous()
        made = rows.new_empty(rows.shape[0], self.outputs)
        for first in range(0, rows.shape[0], COMPUTED_AT_ONCE):
            self.multiply(rows, made, first, min(first + COMPUTED_AT_ONCE, rows.shape[0]))
        return made.view(*x.shape[:-1], self.outputs)

    def multiply(self, rows: Tensor, to: Tensor, first: int, end: int) -> None:
        """Compute rows [first, end)."""
        count, size, matrix = end - first, rows.itemsize, byref(self.struct)
        given = rows.data_ptr() + first * self.inputs * size
        out = to.data_ptr() + first * self.outputs * size
        memory = scratch(library().linear_bytes(matrix, count)).data_ptr()
        library().linear(matrix, given, out, FORMS[rows.dtype], count, memory, torch.get_num_threads())


def parts(outputs: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows, of whole panels."""
    size = PACKED_AT_ONCE * PANEL
    return ((first, min(first + size, outputs)) for first in range(0, outputs, size))


def made_ready(size: int) -> Tensor:
    """Memory of so many bytes, which has been made ready before if there is such."""
    piece = prepared.taken(size)
    return reserved(size) if piece is None else torch.frombuffer(piece, dtype=torch.uint8)


def reserved(size: int) -> Tensor:
    """Memory of so many bytes, aligned; what is large is asked for in huge pages."""
    unit = HUGE if size >= HUGE else ALIGNED
    whole = torch.empty(size + unit, dtype=torch.uint8)
    start = -whole.data_ptr() % unit
    made = whole[start : start + size]
    if unit == HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
        advise(made.data_ptr(), size // HUGE * HUGE, mmap.MADV_HUGEPAGE)
    return made


def advise(start: int, size: int, advice: int) -> None:
    """Tell the kernel; it may be unable to follow, which changes no value."""
    ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), advice)


def address(memory: Tensor | None) -> int | None:
    return None if memory is None or not memory.numel() else memory.data_ptr()


_scratch = threading.local()


def scratch(size: int) -> Tensor:
    """Memory of this thread for what lasts as long as one call; it is kept, and grows."""
    kept = getattr(_scratch, "memory", None)
    if kept is None or kept.numel() < size:
        kept = _scratch.memory = reserved(size)
    return kept
