"""Measures this process's peak memory since `reset`: allocated VRAM on a GPU, resident memory on a CPU."""

import torch

from inference.process.memory.rss import reset_peak, resident_memory


def reset(device: str) -> None:
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    else:
        reset_peak()


def peak_mb(device: str) -> float:
    bytes = torch.cuda.max_memory_allocated() if device == "cuda" else resident_memory().peak
    return bytes / 1e6
