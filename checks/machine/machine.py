"""What this machine has: disk, memory (a container's too), GPUs, a port. Measured once, at the start."""

import socket
from dataclasses import dataclass
from pathlib import Path

from checks.finding import listed, size
from checks.machine.filesystem import MANY, look_at
from checks.machine.graphics import Gpu, capped, gpus_of_torch, none_because
from checks.machine.limits import ENOUGH, open_files, ram
from inference.model.place import has_bfloat16

__all__ = ["Gpu", "Machine", "look", "taken"]


@dataclass(frozen=True, slots=True)
class Machine:
    """Bytes are those a program can have now.

    bfloat16    the devices that multiply it in hardware
    taken       why the port cannot be listened on, empty where it can
    under       the limit that keeps ram from being more; empty where that is the machine itself
    no_gpu      why torch sees no GPU
    disk_under  the quota that keeps disk from being more, empty where none does
    inodes      files that can still be made where downloads are kept, and inodes_under, as for the disk
    unwritable  why nothing can be written there, empty where it can
    links       whether there are symbolic links there
    open_files  files and connections that may be open at a time
    """

    disk: int
    ram: int
    gpus: tuple[Gpu, ...]
    bfloat16: frozenset[str]
    taken: str
    under: str = ""
    no_gpu: str = ""
    disk_under: str = ""
    inodes: int = MANY
    inodes_under: str = ""
    unwritable: str = ""
    links: bool = True
    open_files: int = ENOUGH

    def told(self, device: str, free: int) -> str:
        """What a device has free, and what keeps it from being more."""
        kind, _, number = device.partition(":")
        if kind == "cpu":
            return f"{size(free)} free{f' under {self.under}' if self.under else ''}"
        users = [user for gpu in self.gpus[int(number or 0) :][:1] for user in gpu.users]
        return f"{size(free)} free{f': {listed(users)}' if users else ''}"


def look(*, cache: Path, host: str, port: int, gpu_share: float = 1.0) -> Machine:
    """`gpu_share`: of a GPU's memory, what the server may use."""
    gpus = tuple(capped(gpu, gpu_share) for gpu in gpus_of_torch())
    devices = ("cpu", "cuda") if gpus else ("cpu",)
    memory, folder = ram(), look_at(cache)
    return Machine(
        disk=folder.bytes.left,
        ram=memory.left,
        gpus=gpus,
        bfloat16=frozenset(device for device in devices if has_bfloat16(device)),
        taken=taken(host, port),
        under=memory.what,
        no_gpu=none_because(),
        disk_under=folder.bytes.what,
        inodes=folder.files.left,
        inodes_under=folder.files.what,
        unwritable=folder.unwritable,
        links=folder.links,
        open_files=open_files(),
    )


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
