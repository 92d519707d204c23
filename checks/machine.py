"""What this machine has: disk, memory (a container's too), GPUs, a port. Measured once, at the start."""

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import torch

from inference.model.place import has_bfloat16


@dataclass(frozen=True, slots=True)
class Gpu:
    name: str
    free: int
    total: int


@dataclass(frozen=True, slots=True)
class Machine:
    """Bytes are those a program can have now. `bfloat16` names the devices that multiply it in hardware;
    `taken` says why the port cannot be listened on, empty where it can."""

    disk: int
    ram: int
    gpus: tuple[Gpu, ...]
    bfloat16: frozenset[str]
    taken: str


def look(*, cache: Path, host: str, port: int, gpu_share: float = 1.0) -> Machine:
    """`gpu_share`: of a GPU's memory, what the server may use."""
    gpus = tuple(capped(gpu, gpu_share) for gpu in gpus_of_torch())
    devices = ("cpu", "cuda") if gpus else ("cpu",)
    return Machine(
        disk=free_disk(cache),
        ram=min(psutil.virtual_memory().available, *container_limits()),
        gpus=gpus,
        bfloat16=frozenset(device for device in devices if has_bfloat16(device)),
        taken=taken(host, port),
    )


def free_disk(folder: Path) -> int:
    """Bytes that we may write where `folder` is or will be; what is reserved for root does not count."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    stats = os.statvfs(there)
    return stats.f_bavail * stats.f_frsize


def container_limits(
    groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> Iterator[int]:
    """Bytes left under each memory limit that a container sets: cgroup v2 at every level, and v1.

    Yields a number larger than any machine's first, so that there is always one.
    """
    yield 2**63
    for folder in groups_of(groups, own):
        limit, used = number_in(folder / "memory.max"), number_in(folder / "memory.current")
        if limit is not None and used is not None:
            yield limit - used + reclaimable(folder / "memory.stat", "inactive_file")
    old = groups / "memory"
    limit, used = number_in(old / "memory.limit_in_bytes"), number_in(old / "memory.usage_in_bytes")
    if limit is not None and used is not None:
        yield limit - used + reclaimable(old / "memory.stat", "total_inactive_file")


def groups_of(groups: Path, own: Path) -> list[Path]:
    """This process's cgroup v2 folder and those above it."""
    lines = own.read_text().splitlines() if own.exists() else []
    inner = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    folder = groups / inner
    return [path for path in (folder, *folder.parents) if path.is_relative_to(groups)]


def number_in(path: Path) -> int | None:
    """The number in a kernel file; None where there is no file, or no limit in it."""
    text = path.read_text().strip() if path.is_file() else ""
    return int(text) if text.isdigit() else None


def reclaimable(path: Path, key: str) -> int:
    """File pages that the kernel drops when memory is asked for: counted as used, but to be had."""
    lines = path.read_text().splitlines() if path.is_file() else []
    return next((int(line.split()[1]) for line in lines if line.startswith(key + " ")), 0)


def gpus_of_torch() -> Iterator[Gpu]:
    for number in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(number)
        yield Gpu(torch.cuda.get_device_name(number), free, total)


def capped(gpu: Gpu, share: float) -> Gpu:
    return replace(gpu, free=min(gpu.free, int(gpu.total * share)))


def taken(host: str, port: int) -> str:
    """Why host:port cannot be listened on. Asked by binding it, as the server will."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, proto) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return error.strerror or str(error)
    return ""
