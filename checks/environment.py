"""What this machine and its libraries are, in lines to paste into a report of a fault. No names, no paths."""

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

import psutil
import torch

from checks.finding import size
from checks.machine.graphics import gpus_of_torch, none_because
from checks.machine.limits import ram
from inference.native.processor import processor_features

PACKAGES = ("torch", "transformers", "tokenizers", "huggingface_hub", "llguidance", "flask", "uvicorn")
TELLING = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "amx_int8", "asimd", "bf16")


def report(server: str) -> str:
    return "\n".join(f"{name:<16} {value}" for name, value in facts(server))


def facts(server: str) -> Iterator[tuple[str, str]]:
    yield "hearth", server
    yield "python", platform.python_version()
    yield "system", platform.platform()
    for package in PACKAGES:
        yield package, installed(package)
    yield "CUDA of torch", torch.version.cuda or "none"
    gpus = [f"{gpu.name}, {size(gpu.free)} of {size(gpu.total)} free" for gpu in gpus_of_torch()]
    yield "GPUs", "; ".join(gpus) or f"none: {none_because()}"
    yield "processor", f"{psutil.cpu_count(logical=False)} cores, {psutil.cpu_count()} threads"
    features = processor_features()
    yield "features", " ".join(feature for feature in TELLING if feature in features) or "none of note"
    memory = ram()
    yield "RAM free", size(memory.left) + (f", under {memory.what}" if memory.what else "")


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
