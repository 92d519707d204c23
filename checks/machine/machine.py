"""Measures this machine once, at the start: disk, memory under all limits, GPUs, port."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from checks.installation import triton_needs
from checks.installation.nvidia_driver import find_driver
from checks.machine.gpus import Gpu, explain_no_gpu, find_torch_gpus, fix_no_gpu, with_memory_share
from checks.machine.limits import MAX_OPEN_FILES, available_ram, max_open_files
from inference.finding import format_size, join_names
from inference.model.load.device_dtype import serves_bfloat16
from inference.process.filesystem import UNCOUNTED, inspect_folder
from inference.process.listen_address import (
    MAX_PATH_BYTES,
    PORT_OPTION,
    fits_socket,
    is_listening,
    is_unix_socket,
)


@dataclass(frozen=True, slots=True)
class Machine:
    """The resources that are free now.

    disk                bytes free in the cache folder
    ram                 bytes of memory that this process may still take
    gpus                the GPUs that torch sees
    bfloat16_devices    the kinds of device ("cpu", "cuda") that serve bfloat16 faster than float32
    port_error          why the port cannot be bound; empty if it can
    ram_limited_by      the limit that bounds `ram`; empty: the machine's free memory
    no_gpu_reason       why torch sees no GPU; empty if it sees one
    unused_gpus         names of the driver's GPUs if torch can use none of them
    no_gpu_fix          what makes torch see them; empty without unused_gpus
    missing_for_triton  what Triton lacks to compile kernels; empty without a GPU
    inodes              files that can still be created in the cache folder
    write_error         why the cache folder is not writable; empty if it is
    has_links           whether the cache folder supports symbolic links
    max_open_files      files and connections that may be open at a time
    """

    disk: int
    ram: int
    gpus: tuple[Gpu, ...]
    bfloat16_devices: frozenset[str]
    port_error: str
    ram_limited_by: str = ""
    no_gpu_reason: str = ""
    unused_gpus: tuple[str, ...] = ()
    no_gpu_fix: str = ""
    missing_for_triton: tuple[str, ...] = ()
    inodes: int = UNCOUNTED
    write_error: str = ""
    has_links: bool = True
    max_open_files: int = MAX_OPEN_FILES

    def describe_free(self, device: str, free: int) -> str:
        """The free memory of a device as text, with the limit or the processes that reduce it."""
        kind, _, number = device.partition(":")
        if kind == "cpu":
            return f"{format_size(free)} free{f' under {self.ram_limited_by}' if self.ram_limited_by else ''}"
        users = [user for gpu in self.gpus[int(number or 0) :][:1] for user in gpu.users]
        return f"{format_size(free)} free{f': {join_names(users)}' if users else ''}"


def inspect(*, cache_dir: Path, host: str, port: int, cuda_memory_fraction: float = 1.0) -> Machine:
    """Measure this machine. `cuda_memory_fraction`: share of each GPU's memory that the server may use."""
    gpus = tuple(with_memory_share(gpu, cuda_memory_fraction) for gpu in find_torch_gpus())
    devices = ("cpu", "cuda") if gpus else ("cpu",)
    driver = None if gpus else find_driver()
    memory, folder = available_ram(), inspect_folder(cache_dir)
    return Machine(
        disk=folder.free_bytes,
        ram=memory.remaining,
        gpus=gpus,
        bfloat16_devices=frozenset(device for device in devices if serves_bfloat16(device)),
        port_error=find_port_error(host, port),
        ram_limited_by=memory.limited_by,
        no_gpu_reason=explain_no_gpu(driver),
        unused_gpus=driver.gpus if driver else (),
        no_gpu_fix=fix_no_gpu(driver) if driver else "",
        missing_for_triton=triton_needs.find_missing() if gpus else (),
        inodes=folder.free_files,
        write_error=folder.write_error,
        has_links=folder.has_links,
        max_open_files=max_open_files(),
    )


def find_port_error(host: str, port: int) -> str:
    """Why host:port cannot be bound; empty if it can. Binds it for a moment, as the server will."""
    if is_unix_socket(host):
        return find_socket_error(Path(host))
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, proto) as probe:
            probe.setsockopt(socket.SOL_SOCKET, PORT_OPTION, 1)
            probe.bind(address)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def find_socket_error(path: Path) -> str:
    """Why a Unix socket cannot be created at the path; empty if it can."""
    if not fits_socket(path):
        return f"its path has more than {MAX_PATH_BYTES} bytes"
    if not os.access(path.parent, os.W_OK):
        return "its folder is not there, or not writable"
    if path.exists() and not path.is_socket():
        return "it is another kind of file"
    return "in use" if path.exists() and is_listening(str(path)) else ""
