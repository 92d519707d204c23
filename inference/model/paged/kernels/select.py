"""Selects the attention kernel of a model: the fastest installed one whose results match sdpa.py.

A kernel that is missing, fails or is wrong is skipped and logged. A new kernel is a file in this folder and a
row in KERNELS.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import NamedTuple

import torch
from transformers import PreTrainedModel

from inference.errors import named_error
from inference.model.batch import UnsupportedModel
from inference.model.paged.attention import AttentionKernel
from inference.model.paged.cuda import is_sharded
from inference.model.paged.kernels import timing, verify
from inference.model.paged.kernels.shapes import AttentionShape, attention_shapes
from inference.model.paged.kv_pool import PAGE_SIZE
from inference.model.paged.sdpa import sdpa_kernel


class KernelEntry(NamedTuple):
    """A kernel that may be installed.

    name                  its module in this folder, whose `attend` is the kernel; importing it raises
                          ImportError if its package is missing
    device                device type that it supports
    page_size             tokens of the pages that it reads
    supports_cuda_graphs  whether it can be captured: it neither synchronizes nor reads metadata.spans
    capability            the lowest compute capability for which it is tried
    """

    name: str
    device: str
    page_size: int
    supports_cuda_graphs: bool
    capability: tuple[int, int] = (0, 0)


# For GPUs before Ampere, Triton 3.6 compiles products without tensor cores: up to 81 s for each variant of
# the kernel, whose registers spill. The other kernels refuse the GPUs that are too old for them.
KERNELS = (
    KernelEntry("triton", "cuda", 16, True, (8, 0)),
    KernelEntry("flash_attn_3", "cuda", 16, True),
    KernelEntry("flash_attn", "cuda", 256, True),
    KernelEntry("torch_varlen", "cuda", 256, True),
)

log = logging.getLogger(__name__)

MIN_SPEEDUP = 1.05  # × the speed of sdpa.py: less does not justify another kernel
# Additional factor that a kernel with larger pages must gain: prompts share only whole pages, and on average
# half of each row's last page is empty.
LARGER_PAGE_SPEEDUP = 1.1


def import_kernel(name: str) -> AttentionKernel:
    """Import a kernel by its module name. Raises ImportError."""
    kernel: AttentionKernel = import_module(f"inference.model.paged.kernels.{name}").attend
    return kernel


Times = Callable[[AttentionKernel, Counter[AttentionShape], int, bool], list[float]]


@dataclass(frozen=True, slots=True)
class SelectedKernel:
    """A kernel, the tokens of its pages, and whether CUDA graphs can capture it."""

    name: str
    kernel: AttentionKernel
    page_size: int
    supports_cuda_graphs: bool


DEFAULT = SelectedKernel("sdpa", sdpa_kernel, PAGE_SIZE, False)


@torch.inference_mode()
def select_kernel(
    model: PreTrainedModel,
    rows: Sequence[KernelEntry] = KERNELS,
    find: Callable[[str], AttentionKernel] = import_kernel,
    times: Times = timing.times,
) -> SelectedKernel:
    """Return the kernel for a model whose weights are on their final devices.

    Takes seconds where kernels are compiled, no time on devices without kernels. Raises UnsupportedModel if
    the model does not support paged attention.
    """
    if not any(row.device == model.device.type for row in rows):
        return DEFAULT
    shapes, name = attention_shapes(model), model.config.model_type
    devices = {each.device.type for each in shapes}
    rows = [row for row in rows if devices == {row.device}]
    plain_times = times(sdpa_kernel, shapes, PAGE_SIZE, False) if rows else []
    best, best_speedup = DEFAULT, MIN_SPEEDUP
    for row in rows:
        try:
            check_capability(row, shapes)
            candidate = SelectedKernel(row.name, find(row.name), row.page_size, row.supports_cuda_graphs)
            error = verify_kernel(candidate, shapes)
            speedup = timing.speed_ratio(
                times(candidate.kernel, shapes, row.page_size, row.supports_cuda_graphs), plain_times
            )
        except Exception as raised:  # third-party code: any exception rejects the kernel
            log.info("%s: attention kernel %s rejected: %s", name, row.name, named_error(raised))
            continue
        log.info("%s: attention kernel %s: %.1fx as fast as sdpa, error %.0e", name, row.name, speedup, error)
        speedup = speedup / LARGER_PAGE_SPEEDUP if row.page_size > PAGE_SIZE else speedup
        if speedup > best_speedup:
            best, best_speedup = candidate, speedup
        if best is not DEFAULT and is_sharded():  # other ranks' clocks may choose another one
            break
    log.info("%s: selected attention kernel %s, pages of %d tokens", name, best.name, best.page_size)
    return best


def check_capability(row: KernelEntry, shapes: Iterable[AttentionShape]) -> None:
    """Raise UnsupportedModel if a GPU of the shapes is too old for the kernel."""
    for device in {shape.device for shape in shapes if shape.device.type == "cuda"}:
        major, minor = torch.cuda.get_device_capability(device)
        if (major, minor) < row.capability:
            needed = ".".join(map(str, row.capability))
            raise UnsupportedModel(f"needs compute capability {needed}, {device} has {major}.{minor}")


def verify_kernel(candidate: SelectedKernel, shapes: Counter[AttentionShape]) -> float:
    """The kernel's largest error. Raises ArithmeticError if it is too large, and what the kernel raises."""
    errors = []
    for each in shapes:
        error = verify.max_error(candidate.kernel, each, candidate.page_size)
        if not error <= verify.tolerance_of(each):
            raise ArithmeticError(f"error {error:.0e} exceeds the {verify.tolerance_of(each):.0e} allowed")
        errors.append(error)
    return max(errors)
