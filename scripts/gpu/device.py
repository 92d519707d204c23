"""What differs between a GPU and a CPU, and the limits of the device: bandwidth and peak of matmuls."""

import time
from collections.abc import Callable
from functools import cache

import torch

TURNS = 20
COPIED_BYTES = {"cuda": 4 << 30, "cpu": 64 << 20}  # far larger than any cache
MATMUL_SIZE = {"cuda": 8192, "cpu": 256}


def synchronize(device: str) -> None:
    """Wait for the queued work of a GPU; no effect on a CPU."""
    if device == "cuda":
        torch.cuda.synchronize()


def release_memory(device: str) -> None:
    if device == "cuda":
        torch.cuda.empty_cache()


def reset_peak_memory(device: str) -> None:
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()


def peak_memory(device: str) -> tuple[int, int]:
    """Bytes of VRAM at the peak since the reset: in tensors, and reserved by torch; 0 on a CPU."""
    if device != "cuda":
        return 0, 0
    return torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()


def memory_text(device: str) -> str:
    """VRAM in tensors, reserved by torch, and free; empty on a CPU."""
    if device != "cuda":
        return ""
    free, total = torch.cuda.mem_get_info()
    allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    sizes = (allocated, reserved, free, total)
    return "allocated {:.2f}, reserved {:.2f}, free {:.2f} of {:.2f}".format(*(size / 1e9 for size in sizes))


@cache
def measure_bandwidth(device: str) -> float:
    """Bytes read and written per second by a copy, best of TURNS. Frees its memory."""
    source = torch.zeros(COPIED_BYTES[device] // 4, dtype=torch.float32, device=device)
    best = min(time_copies(source, device))
    copied_bytes = 2 * source.nbytes
    del source
    release_memory(device)
    return copied_bytes / best


def time_copies(source: torch.Tensor, device: str) -> list[float]:
    target = torch.empty_like(source)
    return [time_call(lambda: target.copy_(source), device) for _ in range(TURNS)]


@cache
def measure_peak(device: str, dtype: str) -> float:
    """Floating-point operations per second of a large matmul, best of TURNS."""
    size = MATMUL_SIZE[device]
    factor = torch.randn(size, size, device=device).to(getattr(torch, dtype))
    product = torch.empty_like(factor)
    best = min(time_call(lambda: torch.mm(factor, factor, out=product), device) for _ in range(TURNS))
    return 2 * size**3 / best


def time_call(call: Callable[[], object], device: str) -> float:
    """Seconds until the device has done the call's work."""
    synchronize(device)
    start_s = time.perf_counter()
    call()
    synchronize(device)
    return time.perf_counter() - start_s
