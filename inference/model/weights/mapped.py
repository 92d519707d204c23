"""Weights that are still in their file: a model whose dtype is the file's is mapped, not read.

Knows the kernel's list of what is mapped where.
"""

import ctypes
import mmap
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from torch import Tensor

MAPS = Path("/proc/self/maps")
WEIGHTS = ".safetensors"

Span = tuple[int, int]  # addresses, the second behind the last


def mapped_files(ending: str = "") -> list[Span]:
    """Where this process has files in its memory, those whose names end so; nothing where the kernel does not
    tell."""
    if not MAPS.exists():
        return []
    lines = (line.split(maxsplit=5) for line in MAPS.read_text().splitlines())
    return [
        span_of(addresses)
        for addresses, _, _, _, inode, *path in lines
        if inode != "0" and "".join(path).endswith(ending)
    ]


def span_of(addresses: str) -> Span:
    start, end = addresses.split("-")
    return int(start, 16), int(end, 16)


def forget(weight: Tensor, files: Iterable[Span]) -> None:
    """The weight's values are not needed any more: where they are a file's, they leave this process's memory.

    By themselves they would when memory is short, or nothing of the file is in use. They can be read again,
    and the system may still have them. Memory that is no file's is left alone: it would be lost for others.
    """
    if weight.is_contiguous():
        span = span_in_memory(weight)
        if any(low <= span[0] and span[1] <= high for low, high in files):
            drop(*span)


def forget_unused(model: Any) -> None:
    """So do the parts of weights' files that are no tensor of the model: weights that were read from them
    and put together, as those of experts are.

    Not where weights stay in fewer bits: what reads these has tensors besides the model's, and changes some
    where they lie, which would be undone.
    """
    if getattr(model, "is_quantized", False):
        return
    used = sorted(map(span_in_memory, chain(model.parameters(), model.buffers())))
    for file in mapped_files(WEIGHTS):
        for gap in gaps(file, used):
            drop(*gap)


def gaps(file: Span, used: Iterable[Span]) -> Iterator[Span]:
    """What of the file is in none of `used`, which are in order."""
    free, end = file
    for low, high in used:
        if low >= end:
            break
        if high > free:
            yield free, low
            free = high
    yield free, end


def span_in_memory(tensor: Tensor) -> Span:
    return tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes


def drop(start: int, end: int) -> None:
    """Give the whole pages between back to the file that they are of."""
    start, end = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
    if start < end:
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)
