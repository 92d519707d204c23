"""Measures a process's memory after the model is loaded: weights, KV cache, the total, and the GPUs.

Knows packed weights and the runners' KV memory; not the predictions that the figures are compared with.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psutil
import torch
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from inference.backend_info import Device
from inference.model.batch import Runner
from inference.model.contiguous.runner import ContiguousRunner
from inference.model.fused.runner import FusedRunner
from inference.model.lora.runner import AdapterRunner
from inference.model.paged.runner import PagedRunner
from inference.model.quantization.packed_tensor import PackedExperts, PackedWeight
from inference.process.memory.cgroups import memory_limits
from inference.process.memory.rss import ResidentMemory, reset_peak, resident_memory, written_bytes

BytesByDevice = dict[str, int]  # device ("cpu", "cuda:0", …) → bytes


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """Memory of a GPU, in bytes.

    free      not allocated by any process
    reserved  reserved by torch's caching allocator in this process
    peak      largest total of this process's tensors since the last reset
    """

    free: int
    reserved: int
    peak: int


@dataclass(frozen=True, slots=True)
class MemoryUsage:
    """Memory of a process.

    resident  resident memory of the process
    weights   bytes of parameters and buffers, by device
    adapters  bytes of the loaded adapters, by the device of the modules that they change
    kv_cache  bytes of KV cache and recurrent states, by device; on the CPU only the touched pages
    gpus      GPU number → its memory, for the GPUs that the caller named
    """

    resident: ResidentMemory
    weights: BytesByDevice
    adapters: BytesByDevice
    kv_cache: BytesByDevice
    gpus: dict[int, GpuMemory]


def measure_memory(model: Any, runner: Runner, gpus: Sequence[int], reset_peaks: bool = False) -> MemoryUsage:
    """Measure this process, and GPUs by their numbers. reset_peaks: start new peaks after measuring."""
    usage = MemoryUsage(
        resident_memory(),
        weight_bytes(model),
        adapter_bytes(runner),
        kv_cache_bytes(runner),
        {
            number: GpuMemory(
                free=torch.cuda.mem_get_info(number)[0],
                reserved=torch.cuda.memory_reserved(number),
                peak=torch.cuda.max_memory_allocated(number),
            )
            for number in gpus
        },
    )
    if reset_peaks:
        reset_peak()
        for number in gpus:
            torch.cuda.reset_peak_memory_stats(number)
    return usage


def weight_bytes(model: Any) -> BytesByDevice:
    """Bytes of weights and buffers by device; tensors that share memory count once."""
    sizes: dict[tuple[str, int], int] = {}
    for tensor in (*model.parameters(), *model.buffers()):
        for device, address, size in storages(tensor):
            sizes[device, address] = size
    return sum_by_device((device, size) for (device, _), size in sizes.items())


def storages(tensor: Any) -> Iterator[tuple[str, int, int]]:
    """Yield device, address and bytes of each storage of a tensor; of a DTensor, this rank's shard."""
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    for inner in inner_tensors(tensor):
        yield from storages(inner)
    if isinstance(tensor, PackedExperts):
        for member in tensor.members:
            yield from storages(member)
    elif isinstance(tensor, PackedWeight):
        yield "cpu", id(tensor.matrix), tensor.matrix.nbytes
    elif not tensor.is_meta and not is_traceable_wrapper_subclass(tensor):
        yield str(tensor.device), tensor.data_ptr(), tensor.nbytes


def inner_tensors(tensor: Any) -> list[Tensor]:
    """The tensors inside a quantized weight: torchao's components, or bitsandbytes' quantization state."""
    if is_traceable_wrapper_subclass(tensor):
        return [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
    state = getattr(tensor, "quant_state", None)
    states = [state, getattr(state, "state2", None)]
    return [value for each in states if each for value in vars(each).values() if isinstance(value, Tensor)]


def adapter_bytes(runner: Runner) -> BytesByDevice:
    """Bytes of the runner's loaded adapters by device."""
    if not isinstance(runner, AdapterRunner):
        return {}
    adapters = runner.adapters.values()
    return sum_by_device(item for adapter in adapters for item in adapter.nbytes_by_device(runner.model))


def kv_cache_bytes(runner: Runner) -> BytesByDevice:
    """Bytes of the runner's KV cache and states by device; on the CPU only pages that were written to."""
    return sum_by_device(
        (
            str(data.device),
            written_bytes(data.data_ptr(), data.nbytes) if data.device.type == "cpu" else data.nbytes,
        )
        for data in kv_cache_tensors(runner)
    )


def kv_cache_tensors(runner: Runner) -> list[Tensor]:
    """The tensors of a runner's KV cache and recurrent states; none for a runner without a cache."""
    if isinstance(runner, AdapterRunner):
        return kv_cache_tensors(runner.runner)
    if isinstance(runner, PagedRunner | FusedRunner):
        return [data for pages in runner.pool.layers.values() for data in (pages.keys, pages.values)]
    if isinstance(runner, ContiguousRunner):
        return [table.data for table in runner.memory.tensors if table.data is not None]
    return []


def free_adapter_bytes(model: Any, runner: Runner) -> int:
    """Bytes that adapters may take now on the model's device: what is free, less the KV cache to come."""
    if model.device.type == "cuda":
        free, reserved = torch.cuda.mem_get_info(model.device)[0], torch.cuda.memory_reserved(model.device)
        return free + reserved - torch.cuda.memory_allocated(model.device)
    untouched = sum(data.nbytes for data in kv_cache_tensors(runner)) - sum(kv_cache_bytes(runner).values())
    limits = (limit.limit - limit.used + limit.reclaimable for limit in memory_limits())
    return min([psutil.virtual_memory().available, *limits]) - untouched


def sum_by_device(sizes: Iterator[tuple[str, int]]) -> BytesByDevice:
    totals: BytesByDevice = {}
    for device, size in sizes:
        totals[device] = totals.get(device, 0) + size
    return totals


def devices() -> tuple[Device, ...]:
    """The current state of every CUDA device, with or without the model; empty without CUDA."""
    if not torch.cuda.is_available():
        return ()
    return tuple(device(index) for index in range(torch.cuda.device_count()))


def device(index: int) -> Device:
    free, total = torch.cuda.mem_get_info(index)
    reserved, allocated = torch.cuda.memory_reserved(index), torch.cuda.memory_allocated(index)
    return Device(torch.cuda.get_device_name(index), total, free, reserved, allocated)
