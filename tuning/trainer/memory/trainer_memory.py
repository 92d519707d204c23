"""The memory that a trainer takes, a GPU's or RAM: what is free, and what this process has of it.

Knows torch and the process; not what a training takes.
"""

import torch

from inference.model.load.device_dtype import resolve_device
from inference.process.memory.rss import resident_memory


def free_vram(gpu: int = 0) -> int:
    """Free bytes of a GPU. A server has its KV cache there from its start on."""
    return int(torch.cuda.mem_get_info(gpu)[0])


def used_bytes(device: str) -> int:
    """What this trainer's process has of the memory that is planned. device: as in JobSpec."""
    return torch.cuda.memory_reserved() if resolve_device(device) == "cuda" else resident_memory().total


def peak_bytes(device: str) -> int:
    """As used_bytes, at its largest."""
    return torch.cuda.max_memory_reserved() if resolve_device(device) == "cuda" else resident_memory().peak
