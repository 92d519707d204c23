"""What a model that is ready holds in memory, as it is: bytes of its weights, and the tensors that its runner
keeps of sequences.

Knows native weights and the runners' memories; not what was expected of them.
"""

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from inference.model.batch import Runner
from inference.model.packed.runner import PackedRunner
from inference.model.slots.runner import SlotRunner
from inference.model.weights.weight import NativeStack, NativeWeight


def weights_on(model: Any) -> dict[str, int]:
    """Bytes of weights and buffers by device, "cpu" or "cuda:0", each memory once."""
    held: dict[tuple[str, int], int] = {}
    for tensor in (*model.parameters(), *model.buffers()):
        for device, place, size in pieces(tensor):
            held[device, place] = size
    found: dict[str, int] = {}
    for (device, _), size in held.items():
        found[device] = found.get(device, 0) + size
    return found


def pieces(tensor: Any) -> Iterator[tuple[str, int, int]]:
    """Device, address and bytes of each memory that a tensor is made of."""
    if isinstance(tensor, NativeStack):
        for member in tensor.members:
            yield from pieces(member)
    elif isinstance(tensor, NativeWeight):
        yield "cpu", id(tensor.matrix), tensor.matrix.nbytes
    elif not tensor.is_meta:
        yield str(tensor.device), tensor.data_ptr(), tensor.nbytes


def kept(runner: Runner) -> list[Tensor]:
    """What it keeps of sequences; none of a runner that computes them anew."""
    if isinstance(runner, PackedRunner):
        return [data for pages in runner.pool.modules.values() for data in (pages.keys, pages.values)]
    if isinstance(runner, SlotRunner):
        return [table.data for table in runner.memory.tables if table.data is not None]
    return []
