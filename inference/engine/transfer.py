"""Copies between host and device, from and to pinned memory: a copy from any other may wait for all that the
device has still to do, and one to any other takes a detour. Knows tensors and devices only."""

from collections.abc import Callable

import torch
from torch import Tensor


def sent(values: Tensor, device: torch.device) -> Tensor:
    """The host's values on the device, once it comes to that; nobody waits."""
    if device.type == "cuda":
        values = values.pin_memory()
    return values.to(device, non_blocking=True)


def coming(values: Tensor) -> Callable[[], Tensor]:
    """Send the values to the host, once they are computed; nobody waits but who calls what is returned, which
    gives them: for these values alone, not for what the device is asked afterwards."""
    if not values.is_cuda:
        here = values.cpu()
        return lambda: here
    host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    host.copy_(values, non_blocking=True)
    done = torch.cuda.Event()
    done.record(torch.cuda.current_stream(values.device))

    def arrived() -> Tensor:
        done.synchronize()
        return host

    return arrived


def fetched(values: Tensor) -> Tensor:
    """The values on the host, once they are computed and have come."""
    return coming(values)()
