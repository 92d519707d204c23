"""Describes this machine: processor, GPU, library versions."""

import os
import platform
from collections.abc import Iterator

import torch
import transformers

from inference.native.cpu_levels import processor_name


def describe() -> Iterator[str]:
    """Two or three lines of text."""
    # The load of the last minute; this process contributes to it.
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    yield f"{processor_name()}, {os.cpu_count()} cores, load {load}"
    if torch.cuda.is_available():
        yield f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}"
    libraries = f"torch {torch.__version__}, transformers {transformers.__version__}"
    yield f"Python {platform.python_version()}, {libraries}"
