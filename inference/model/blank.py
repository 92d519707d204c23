"""Memory that holds zeros, and takes none before it is written to where the system can do that."""

import math
import mmap

import torch


def blank(shape: tuple[int, ...], sample: torch.Tensor) -> torch.Tensor:
    """Zeros of the sample's dtype and device. On the CPU, what is never written to takes no memory.

    Zeros, not what happened to be there: a column that the mask hides is multiplied by 0, and 0 × nan is nan.
    A map has the system hand out zero pages as they are touched; torch.zeros touches them all, and numpy asks
    for huge ones, which held up the first token of a row by 40 ms.
    """
    size = math.prod(shape) * sample.element_size()
    if sample.device.type != "cpu" or not size:
        return torch.zeros(shape, dtype=sample.dtype, device=sample.device)
    return torch.frombuffer(private(size), dtype=torch.uint8).view(sample.dtype).view(shape)


def private(size: int) -> mmap.mmap:
    """Bytes of this process alone, which a child that it forks would not share."""
    return mmap.mmap(-1, size, access=mmap.ACCESS_COPY)
