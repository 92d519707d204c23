"""Releases memory-mapped weights: a model with the dtype of its files is mapped, not read.

Knows /proc/self/maps and madvise(2).
"""

import ctypes
import mmap
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

MAPS = Path("/proc/self/maps")
WEIGHTS = ".safetensors"
REMOVED = " (deleted)"  # after the path of a file that is mapped, but has no name any more

AddressRange = tuple[int, int]  # [start, end)


class Mapping(NamedTuple):
    """The addresses [start, end) where a file is mapped."""

    start: int
    end: int
    is_writable: bool
    path: str


def mappings() -> list[Mapping]:
    """The memory-mapped files of this process; empty on systems without /proc."""
    if not MAPS.exists():
        return []
    return [mapping for line in MAPS.read_text("utf-8").splitlines() if (mapping := read_mapping(line))]


def read_mapping(line: str) -> Mapping | None:
    """A line of MAPS; None for memory without a file."""
    addresses, permissions, _, _, inode, *path = line.split(maxsplit=5)
    if inode == "0":
        return None
    start, end = (int(address, 16) for address in addresses.split("-"))
    return Mapping(start, end, "w" in permissions, "".join(path))


def mappings_of(path: Path) -> list[Mapping]:
    """Where this process has mapped the file, also if it was removed since."""
    name = str(path.resolve())
    return [mapping for mapping in mappings() if mapping.path.removesuffix(REMOVED) == name]


def mapped_files(ending: str = "") -> list[AddressRange]:
    """The ranges of memory-mapped files whose names have this ending; empty on systems without /proc."""
    return [(mapping.start, mapping.end) for mapping in mappings() if mapping.path.endswith(ending)]


def is_mapped(path: Path) -> bool:
    """Whether this process has mapped the file; False on systems without /proc."""
    return bool(mapped_files(str(path.resolve())))


def release_weight(weight: Tensor, files: Iterable[AddressRange]) -> None:
    """Drop a weight that is no longer needed from this process's memory, if it is part of a mapped file.

    The kernel itself would drop it only when memory is short. It can be read again from the file. Memory that
    belongs to no file is left alone: its contents would be lost.
    """
    if weight.is_cpu and weight.is_contiguous():
        addresses = address_range(weight)
        if any(low <= addresses[0] and addresses[1] <= high for low, high in files):
            release_range(*addresses)


def release_unused(model: Any) -> None:
    """Drop the parts of weight files that no tensor of the model uses, e.g. experts merged into one tensor.

    Does nothing for a model with quantized files: its library keeps further tensors in the mapped memory and
    changes some in place; dropping the pages would undo the changes.
    """
    if getattr(model, "is_quantized", False):
        return
    used = sorted(map(address_range, chain(model.parameters(), model.buffers())))
    for file in mapped_files(WEIGHTS):
        for gap in gaps(file, used):
            release_range(*gap)


def gaps(file: AddressRange, used: Iterable[AddressRange]) -> Iterator[AddressRange]:
    """The ranges of the file outside of `used`, which is sorted."""
    free, end = file
    for low, high in used:
        if low >= end:
            break
        if high > free:
            yield free, low
            free = high
    yield free, end


def address_range(tensor: Tensor) -> AddressRange:
    return tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes


def release_range(start: int, end: int) -> None:
    """Drop the whole pages in the range from memory."""
    start, end = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
    if start < end:
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)
