"""This machine and the versions of its libraries, as lines for a bug report. No user names, no paths."""

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

import psutil
import torch

from checks.installation.nvidia_driver import find_driver
from checks.machine.gpus import explain_no_gpu, find_torch_gpus
from checks.machine.limits import available_ram
from inference.finding import format_size
from inference.native.cpu_levels import processor_features

PACKAGES = ("torch", "transformers", "tokenizers", "huggingface_hub", "llguidance", "flask", "uvicorn")
REPORTED_FEATURES = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "amx_int8", "asimd", "bf16")


def report(server: str) -> str:
    return "\n".join(f"{name:<16} {value}" for name, value in collect_facts(server))


def collect_facts(server: str) -> Iterator[tuple[str, str]]:
    yield "hearth", server
    yield "python", platform.python_version()
    yield "system", platform.platform()
    for package in PACKAGES:
        yield package, installed_version(package)
    yield "CUDA of torch", torch.version.cuda or "none"
    driver = find_driver()
    yield "NVIDIA driver", driver.version if driver else "none with a GPU"
    gpus = [
        f"{number}: {gpu.name}, {format_size(gpu.free)} of {format_size(gpu.total)} free"
        for number, gpu in enumerate(find_torch_gpus())
    ]
    yield "GPUs", "; ".join(gpus) or f"none: {explain_no_gpu(driver)}"
    yield "processor", f"{psutil.cpu_count(logical=False)} cores, {psutil.cpu_count()} threads"
    features = processor_features()
    yield (
        "features",
        " ".join(feature for feature in REPORTED_FEATURES if feature in features) or "none of those reported",
    )
    memory = available_ram()
    yield (
        "RAM free",
        format_size(memory.remaining) + (f", under {memory.limited_by}" if memory.limited_by else ""),
    )


def installed_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
