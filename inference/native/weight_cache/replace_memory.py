"""Puts the pages of a file in the place of memory that has the same bytes.

Addresses and bytes stay, so what reads the memory does not notice; other processes that map the file then
share it. Knows addresses and mmap(2), on Linux; elsewhere the memory stays as it is.
"""

import ctypes
import mmap
import sys
from collections.abc import Sequence
from ctypes import c_int, c_int64, c_size_t, c_void_p

from torch import Tensor

MIN_SHARE = 0.9  # of the bytes; a few blocks of many are not worth mappings of their own
REPLACED_AT_ONCE = 1 << 24  # bytes: others wait for their page faults meanwhile
MAP_FIXED, MADV_POPULATE_READ = 0x10, 22  # as in mman.h; Python's module does not have them


def replace_memory(descriptor: int, places: Sequence[tuple[Tensor, int]]) -> bool:
    """Map a file over blocks that were written to it; returns whether it did, for nearly all bytes.

    descriptor  open for reading alone: mapped files stay open, and no FileLease is on one open for writing
    places      blocks (uint8) and their offsets in the file, multiples of a page

    The end of a block that is no whole page stays. A later write to the memory leaves the file as it is.
    """
    aligned = [(block, offset) for block, offset in places if block.data_ptr() % mmap.PAGESIZE == 0]
    size, aligned_size = (sum(block.nbytes for block, _ in each) for each in (places, aligned))
    if sys.platform != "linux" or not aligned_size or aligned_size < MIN_SHARE * size:
        return False
    return all(replace_block(descriptor, block, offset) for block, offset in aligned)


def replace_block(descriptor: int, block: Tensor, offset: int) -> bool:
    """Replace the whole pages of a block; whether the system does."""
    system = ctypes.CDLL(None)
    system.mmap.argtypes = (c_void_p, c_size_t, c_int, c_int, c_int, c_int64)
    system.mmap.restype = c_void_p
    protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | MAP_FIXED
    size = block.nbytes // mmap.PAGESIZE * mmap.PAGESIZE
    for start in range(0, size, REPLACED_AT_ONCE):
        length, address = min(REPLACED_AT_ONCE, size - start), block.data_ptr() + start
        if system.mmap(address, length, protection, flags, descriptor, offset + start) != address:
            return False
        # Errors are ignored: otherwise the pages come as they are read.
        system.madvise(c_void_p(address), c_size_t(length), MADV_POPULATE_READ)
    return True
