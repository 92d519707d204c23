"""The kernels there may be besides the plain one. A new one is a file in this folder and a row here."""

from importlib import import_module
from typing import NamedTuple

from inference.model.packed.attention import Kernel


class Row(NamedTuple):
    """A kernel that may be had.

    name      its module in this folder, and there `paged` is the kernel; to import it raises ImportError
              where it cannot be had
    device    the type of devices that it is for
    size      tokens of the pages that it reads
    captures  it may be recorded in a CUDA graph: it neither waits for the device nor reads line.spans
    """

    name: str
    device: str
    size: int
    captures: bool


KERNELS = (
    Row("triton", "cuda", 16, True),
    Row("flash_attn_3", "cuda", 16, True),
    Row("flash_attn_2", "cuda", 256, True),
    Row("varlen", "cuda", 256, True),
)


def imported(name: str) -> Kernel:
    """Raises ImportError."""
    kernel: Kernel = import_module(f"inference.model.packed.kernels.{name}").paged
    return kernel
