"""The GPUs that torch sees: free memory, the processes that use the rest, and whether torch has kernels.

Reads torch.cuda and nvidia-smi. Without nvidia-smi the processes are unknown. Explains why torch sees none.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from checks.installation.nvidia_driver import Driver
from checks.installation.torch_build import describe_fix, describe_mismatch
from inference.finding import format_size

MIN_USED_BYTES = 1_000_000_000  # bytes in use above which nvidia-smi is asked for the processes
NVIDIA_SMI = ("nvidia-smi", "--query-compute-apps=gpu_uuid,pid,process_name,used_memory")
CSV_FORMAT = "--format=csv,noheader,nounits"
NVIDIA_SMI_TIMEOUT_S = 2


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU that torch sees.

    free, total         memory in bytes
    users               texts about processes that have memory of it
    unsupported_reason  why torch cannot compute on it; empty if it can
    """

    name: str
    free: int
    total: int
    users: tuple[str, ...] = field(default=())
    unsupported_reason: str = ""


def find_torch_gpus() -> Iterator[Gpu]:
    """The GPUs; none if torch cannot use them."""
    # device_count() also counts the GPUs of a driver that is too old, and mem_get_info() raises for those.
    if not torch.cuda.is_available():
        return
    others: dict[str, tuple[str, ...]] | None = None
    for number in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(number)
        if others is None and total - free > MIN_USED_BYTES:
            others = parse_users(read_nvidia_smi())
        properties = torch.cuda.get_device_properties(number)
        major, minor = properties.major, properties.minor
        is_supported = supports_capability((major, minor), torch.cuda.get_arch_list())
        yield Gpu(
            properties.name,
            free,
            total,
            (others or {}).get(str(getattr(properties, "uuid", "")), ()),
            "" if is_supported else f"torch {torch.__version__} has no kernels for its sm_{major}{minor}",
        )


def with_memory_share(gpu: Gpu, share: float) -> Gpu:
    return replace(gpu, free=min(gpu.free, int(gpu.total * share)))


def read_nvidia_smi() -> str:
    """The processes on the GPUs as CSV from nvidia-smi; empty if it is missing, fails or takes too long."""
    try:
        return subprocess.run(
            [*NVIDIA_SMI, CSV_FORMAT],
            capture_output=True,
            text=True,
            timeout=NVIDIA_SMI_TIMEOUT_S,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def parse_users(output: str) -> dict[str, tuple[str, ...]]:
    """Texts about the processes by the GPU's uuid, without its prefix. A container sees only its own."""
    users_by_gpu: dict[str, tuple[str, ...]] = {}
    for line in output.splitlines():
        match [column.strip() for column in line.split(",")]:
            case [gpu, pid, name, used] if used.isdigit():
                key = gpu.removeprefix("GPU-")
                user = f"{Path(name).name} (process {pid}) has {format_size(int(used) * 2**20)}"
                users_by_gpu[key] = (*users_by_gpu.get(key, ()), user)
    return users_by_gpu


def supports_capability(capability: tuple[int, int], built_for: Sequence[str]) -> bool:
    """Whether a torch built for the architectures `built_for` (sm_80, compute_90, ...) runs on `capability`.

    CUDA C programming guide, "Compute capabilities": machine code (sm_) runs on GPUs with the same major
    version and the same or a higher minor one; PTX (compute_) is compiled for every newer GPU.
    """
    for architecture in built_for:
        if match := re.fullmatch(r"(sm|compute)_(\d+)(\d)[af]?", architecture):
            code, major, minor = match[1], int(match[2]), int(match[3])
            if (major, minor) <= capability and (code == "compute" or major == capability[0]):
                return True
    return not built_for


def explain_no_gpu(driver: Driver | None) -> str:
    """Why torch sees no GPU; empty if it sees one. `driver`: the driver with GPUs, None if there is none."""
    if torch.cuda.is_available():
        return ""
    if driver and (mismatch := describe_mismatch(torch.version.cuda, driver)):
        return f"torch {torch.__version__} {mismatch}"
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA"
    if driver and (visible := os.environ.get("CUDA_VISIBLE_DEVICES")):
        return f"CUDA_VISIBLE_DEVICES={visible} names no GPU that torch can use"
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return f"torch is built for CUDA {torch.version.cuda}: {str(error).split('. ')[0]}"
    return f"torch is built for CUDA {torch.version.cuda}, but sees no device"


def fix_no_gpu(driver: Driver) -> str:
    """What makes torch see the GPUs of the driver."""
    if describe_mismatch(torch.version.cuda, driver):
        return describe_fix(driver)
    if os.environ.get("CUDA_VISIBLE_DEVICES"):
        return "unset CUDA_VISIBLE_DEVICES"
    return "make nvidia-smi and python3 -c 'import torch; torch.cuda.init()' work"
