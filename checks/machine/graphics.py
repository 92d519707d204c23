"""The GPUs as torch sees them: free memory and who has the rest, what they compute; or why there are none.

Knows torch's CUDA and nvidia-smi; where either is not there, less is told.
"""

import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from checks.finding import size

TELLING = 1_000_000_000  # bytes in use from which it is worth asking by whom
ASK = ("nvidia-smi", "--query-compute-apps=gpu_uuid,pid,process_name,used_memory")
PLAIN = "--format=csv,noheader,nounits"
ASK_S = 2
DRIVER = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True, slots=True)
class Gpu:
    """In bytes. `users`: who else has memory of it; `lacks`: why torch cannot compute on it, empty else."""

    name: str
    free: int
    total: int
    users: tuple[str, ...] = field(default=())
    lacks: str = ""


def gpus_of_torch() -> Iterator[Gpu]:
    others: dict[str, tuple[str, ...]] | None = None
    for number in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(number)
        if others is None and total - free > TELLING:
            others = users(asked())
        told = torch.cuda.get_device_properties(number)
        kind = (told.major, told.minor)
        yield Gpu(
            told.name,
            free,
            total,
            (others or {}).get(str(getattr(told, "uuid", "")), ()),
            "" if computes(kind, torch.cuda.get_arch_list()) else no_kernels(kind),
        )


def capped(gpu: Gpu, share: float) -> Gpu:
    return replace(gpu, free=min(gpu.free, int(gpu.total * share)))


def asked() -> str:
    """What nvidia-smi says of who uses the GPUs; empty where it is not there, or does not answer."""
    try:
        return subprocess.run([*ASK, PLAIN], capture_output=True, text=True, timeout=ASK_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def users(told: str) -> dict[str, tuple[str, ...]]:
    """By the GPU's uuid, without its prefix: the processes on it. A container sees only its own."""
    found: dict[str, tuple[str, ...]] = {}
    for line in told.splitlines():
        match [part.strip() for part in line.split(",")]:
            case [gpu, pid, name, used] if used.isdigit():
                key = gpu.removeprefix("GPU-")
                user = f"{Path(name).name} (process {pid}) has {size(int(used) * 2**20)}"
                found[key] = (*found.get(key, ()), user)
    return found


def computes(kind: tuple[int, int], built: Sequence[str]) -> bool:
    """Whether a torch built for `built` (sm_80, compute_90 …) has code that a GPU of this kind runs.

    CUDA C programming guide, "Compute capabilities": machine code runs on its own major version from its
    minor on, intermediate code (compute_) is compiled for everything newer.
    """
    for architecture in built:
        if found := re.fullmatch(r"(sm|compute)_(\d+)(\d)[af]?", architecture):
            code, major, minor = found[1], int(found[2]), int(found[3])
            if (major, minor) <= kind and (code == "compute" or major == kind[0]):
                return True
    return not built


def no_kernels(kind: tuple[int, int]) -> str:
    return f"torch {torch.__version__} has no kernels for its sm_{kind[0]}{kind[1]}"


def none_because() -> str:
    """Why torch sees no GPU; empty where it sees one."""
    if torch.cuda.is_available():
        return ""
    if torch.version.cuda is None:
        seen = "an NVIDIA driver is here, but " if DRIVER.exists() else ""
        return f"{seen}torch {torch.__version__} is built without CUDA"
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return f"torch is built for CUDA {torch.version.cuda}: {str(error).split('. ')[0]}"
    return f"torch is built for CUDA {torch.version.cuda}, and sees no device"
