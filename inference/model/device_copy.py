"""Asynchronous copies between host and device, through pinned memory.

With pageable memory a copy to the device may wait for all work queued on it, and a copy to the host always
blocks. Knows tensors and devices only.
"""

from collections.abc import Callable, Iterator
from itertools import accumulate, chain, pairwise

import torch
from torch import Tensor


def to_device(values: Tensor, device: torch.device) -> Tensor:
    """The host tensor on the device; the copy is asynchronous."""
    if device.type == "cuda":
        values = values.pin_memory()
    return values.to(device, non_blocking=True)


def copy_to_host_async(values: Tensor) -> Callable[[], Tensor]:
    """Start an asynchronous device-to-host copy; calling the result waits and returns the values.

    It waits for the copy alone, not for work queued on the device afterwards.
    """
    if not values.is_cuda:
        host_copy = values.cpu()
        return lambda: host_copy
    host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    host.copy_(values, non_blocking=True)
    copy_done = torch.cuda.Event()
    copy_done.record(torch.cuda.current_stream(values.device))

    def wait() -> Tensor:
        copy_done.synchronize()
        return host

    return wait


def copy_to_host(values: Tensor) -> Tensor:
    """Copy to the host and wait."""
    return copy_to_host_async(values)()


def lists_to_device(lists: list[list[int]], device: torch.device) -> Iterator[Tensor]:
    """The lists as int64 tensors on the device, by one copy from pinned memory."""
    flat = torch.tensor(list(chain.from_iterable(lists)), dtype=torch.int64, pin_memory=device.type == "cuda")
    flat = flat.to(device, non_blocking=True)
    ends = list(accumulate(map(len, lists), initial=0))
    return iter([flat[start:end] for start, end in pairwise(ends)])
