"""Weights that are still in their file: a model whose dtype is the file's is mapped, not read.

Knows the kernel's list of what is mapped where.
"""

import ctypes
import mmap
from pathlib import Path

from torch import Tensor

MAPS = Path("/proc/self/maps")


def forget(weight: Tensor) -> None:
    """The weight's values are not needed any more: where they are a file's, they leave this process's memory.

    By themselves they would when memory is short, or nothing of the file is in use. They can be read again,
    and the system may still have them. Memory that is no file's is left alone: it would be lost for others.
    """
    if not weight.is_contiguous() or not MAPS.exists():
        return
    page = mmap.PAGESIZE
    start = -(-weight.data_ptr() // page) * page
    end = (weight.data_ptr() + weight.nbytes) // page * page
    if start < end and of_a_file(start, end):
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)


def of_a_file(start: int, end: int) -> bool:
    for line in MAPS.read_text().splitlines():
        span, _, _, _, inode, *_ = line.split()
        low, high = (int(address, 16) for address in span.split("-"))
        if low <= start < high:
            return end <= high and inode != "0"
    return False
