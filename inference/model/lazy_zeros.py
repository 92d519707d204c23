"""Zeroed tensors that occupy no physical memory on the CPU until they are written to."""

import math
import mmap

import torch


def lazy_zeros(shape: tuple[int, ...], sample: torch.Tensor) -> torch.Tensor:
    """Zeros with the sample's dtype and device. On the CPU, pages take physical memory at their first write.

    Uninitialized memory would not do: a masked column is multiplied by 0, and 0 × nan is nan. On the CPU the
    memory is an anonymous mmap, whose pages the system zeroes one by one as they are touched. torch.zeros
    touches all pages at once; numpy requests huge pages, which delayed the first token of a row by 40 ms.
    """
    size = math.prod(shape) * sample.element_size()
    if sample.device.type != "cpu" or not size:
        return torch.zeros(shape, dtype=sample.dtype, device=sample.device)
    memory = mmap.mmap(-1, size, access=mmap.ACCESS_COPY)  # private: a forked child gets a copy
    return torch.frombuffer(memory, dtype=torch.uint8).view(sample.dtype).view(shape)
