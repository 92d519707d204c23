"""The GPUs' memory, as their driver and torch tell it. Knows no model."""

import torch

from inference.types import Device


def devices() -> tuple[Device, ...]:
    """Every CUDA device, whether the model is on it or not; none without CUDA. Figures of now."""
    if not torch.cuda.is_available():
        return ()
    return tuple(device(index) for index in range(torch.cuda.device_count()))


def device(index: int) -> Device:
    free, total = torch.cuda.mem_get_info(index)
    reserved, allocated = torch.cuda.memory_reserved(index), torch.cuda.memory_allocated(index)
    return Device(torch.cuda.get_device_name(index), total, free, reserved, allocated)
