"""How busy a backend is: its requests, and the memory of its GPUs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU's memory in bytes: free and total of the GPU, reserved and allocated by torch in this process."""

    name: str
    total: int
    free: int
    reserved: int
    allocated: int


@dataclass(frozen=True, slots=True)
class BackendLoad:
    """How busy a backend is. kv_usage: share of the KV cache that running answers use, from 0 to 1."""

    running: int = 0
    waiting: int = 0
    kv_usage: float = 0.0
    devices: tuple[Device, ...] = ()
