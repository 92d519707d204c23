"""What the figures were measured on, in one line each."""

import os
import platform
from collections.abc import Iterator
from pathlib import Path

import torch
import transformers

CPUINFO = Path("/proc/cpuinfo")


def lines() -> Iterator[str]:
    yield f"{processor()}, {os.cpu_count()} cores, load {load()}"
    if torch.cuda.is_available():
        yield f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}"
    libraries = f"torch {torch.__version__}, transformers {transformers.__version__}"
    yield f"Python {platform.python_version()}, {libraries}"


def processor() -> str:
    """Its name, where the kernel tells."""
    if not CPUINFO.exists():
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2].strip() for line in CPUINFO.open() if line.startswith("model name"))
    return next(named, platform.machine())


def load() -> str:
    """How many programs wanted a core, over the last minute; ours among them."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
