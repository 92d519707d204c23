"""Copies between host and device, from and to pinned memory: a copy from any other may wait for all that the
device has still to do, and one to any other takes a detour. Knows tensors and devices only."""

import torch
from torch import Tensor


def sent(values: Tensor, device: torch.device) -> Tensor:
    """The host's values on the device, once it comes to that; nobody waits."""
    if device.type == "cuda":
        values = values.pin_memory()
    return values.to(device, non_blocking=True)


def fetched(values: Tensor) -> Tensor:
    """The values on the host, once they are computed: the one place of a step that waits."""
    if not values.is_cuda:
        return values.cpu()
    host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    host.copy_(values, non_blocking=True)
    torch.cuda.current_stream(values.device).synchronize()
    return host
