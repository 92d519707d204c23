"""The most memory that this process held since it was last asked: of a GPU, or resident on the machine.

The kernel keeps the mark for RAM (proc(5), VmHWM; 5 in clear_refs resets it); elsewhere it is unknown.
"""

from pathlib import Path

import torch

MARK, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def reset(device: str) -> None:
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    elif RESET.exists():
        RESET.write_text("5")


def peak_mb(device: str) -> float:
    """Since `reset`; 0 where the system does not say."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 1e6
    if not RESET.exists():
        return 0.0
    lines = (line.split() for line in MARK.read_text().splitlines())
    return next((float(line[1]) * 1024 / 1e6 for line in lines if line[0] == "VmHWM:"), 0.0)
