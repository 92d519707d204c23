"""What a process holds of memory once its model is ready, as it is: of weights, of what its runner keeps of
sequences, and of all else.

Knows native weights and the runners' memories; not what was expected of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from inference.model.batch import Runner
from inference.model.packed.runner import PackedRunner
from inference.model.slots.runner import SlotRunner
from inference.model.weights.weight import NativeStack, NativeWeight
from inference.resident import Resident, forget_peak, resident, written

Sizes = dict[str, int]  # bytes by device, "cpu" or "cuda:0"


@dataclass(frozen=True, slots=True)
class Gpu:
    """In bytes. free: that nobody has; reserved: that torch has in this process; most: that its tensors took
    at one time."""

    free: int
    reserved: int
    most: int


@dataclass(frozen=True, slots=True)
class Held:
    """gpus: by their numbers, those that were asked for."""

    resident: Resident
    weights: Sizes
    kept: Sizes
    gpus: dict[int, Gpu]


def held(model: Any, runner: Runner, gpus: Sequence[int], afresh: bool = False) -> Held:
    """What this process holds. `afresh`: the most at one time is counted anew from now on."""
    found = Held(resident(), weights_on(model), kept_on(runner), {number: gpu(number) for number in gpus})
    if afresh:
        forget_peak()
        for number in gpus:
            torch.cuda.reset_peak_memory_stats(number)
    return found


def gpu(number: int) -> Gpu:
    free, _ = torch.cuda.mem_get_info(number)
    return Gpu(free, torch.cuda.memory_reserved(number), torch.cuda.max_memory_allocated(number))


def weights_on(model: Any) -> Sizes:
    """Bytes of weights and buffers, each memory once."""
    found: dict[tuple[str, int], int] = {}
    for tensor in (*model.parameters(), *model.buffers()):
        for device, place, size in pieces(tensor):
            found[device, place] = size
    return summed((device, size) for (device, _), size in found.items())


def pieces(tensor: Any) -> Iterator[tuple[str, int, int]]:
    """Device, address and bytes of each memory of a tensor; of a shared one, of this rank's part."""
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    for part in inside(tensor):
        yield from pieces(part)
    if isinstance(tensor, NativeStack):
        for member in tensor.members:
            yield from pieces(member)
    elif isinstance(tensor, NativeWeight):
        yield "cpu", id(tensor.matrix), tensor.matrix.nbytes
    elif not tensor.is_meta and not is_traceable_wrapper_subclass(tensor):
        yield str(tensor.device), tensor.data_ptr(), tensor.nbytes


def inside(tensor: Any) -> list[Tensor]:
    """Those that a weight in fewer bits is made of, as torchao's, or has beside it, as bitsandbytes'."""
    if is_traceable_wrapper_subclass(tensor):
        return [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
    state = getattr(tensor, "quant_state", None)
    states = [state, getattr(state, "state2", None)]
    return [value for each in states if each for value in vars(each).values() if isinstance(value, Tensor)]


def kept_on(runner: Runner) -> Sizes:
    """Bytes for sequences, on a CPU those that were written to."""
    return summed((str(data.device), there(data)) for data in kept(runner))


def there(data: Tensor) -> int:
    return written(data.data_ptr(), data.nbytes) if data.device.type == "cpu" else data.nbytes


def kept(runner: Runner) -> list[Tensor]:
    """What it keeps of sequences; none of a runner that computes them anew."""
    if isinstance(runner, PackedRunner):
        return [data for pages in runner.pool.modules.values() for data in (pages.keys, pages.values)]
    if isinstance(runner, SlotRunner):
        return [table.data for table in runner.memory.tables if table.data is not None]
    return []


def summed(sizes: Iterator[tuple[str, int]]) -> Sizes:
    found: Sizes = {}
    for device, size in sizes:
        found[device] = found.get(device, 0) + size
    return found
