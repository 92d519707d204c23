"""Weights that are still in their file: a model whose dtype is the file's is mapped, not read.

Knows the kernel's list of what is mapped where.
"""

import ctypes
import mmap
from collections.abc import Iterable
from pathlib import Path

from torch import Tensor

MAPS = Path("/proc/self/maps")

Span = tuple[int, int]  # addresses, the second behind the last


def mapped_files() -> list[Span]:
    """Where this process has files in its memory; nothing where the kernel does not tell."""
    if not MAPS.exists():
        return []
    lines = (line.split() for line in MAPS.read_text().splitlines())
    return [span_of(addresses) for addresses, _, _, _, inode, *_ in lines if inode != "0"]


def span_of(addresses: str) -> Span:
    start, end = addresses.split("-")
    return int(start, 16), int(end, 16)


def forget(weight: Tensor, files: Iterable[Span]) -> None:
    """The weight's values are not needed any more: where they are a file's, they leave this process's memory.

    By themselves they would when memory is short, or nothing of the file is in use. They can be read again,
    and the system may still have them. Memory that is no file's is left alone: it would be lost for others.
    """
    if not weight.is_contiguous():
        return
    page = mmap.PAGESIZE
    start = -(-weight.data_ptr() // page) * page
    end = (weight.data_ptr() + weight.nbytes) // page * page
    if start < end and any(low <= start and end <= high for low, high in files):
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)
