"""Recognizes a GPU that computes nothing any more for this process.

After an illegal memory access or a failed assertion on the device, CUDA answers every call of the process
with the same error. Other errors, such as too little memory, leave the device usable. Knows torch's devices.
"""

import torch


class DeviceLost(Exception):
    """A GPU refuses all further work of this process: only another process can use it."""


def is_device_lost() -> bool:
    """Whether a GPU that this process uses refuses all work. Waits for the work that is queued."""
    try:
        for gpu in range(torch.cuda.device_count() if torch.cuda.is_initialized() else 0):
            if torch.cuda.memory_reserved(gpu):  # others would be initialized
                torch.cuda.synchronize(gpu)
    except RuntimeError:
        return True
    return False
