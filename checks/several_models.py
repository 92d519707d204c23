"""The memory plan of several models that are loaded on demand: how many fit together, and what each may take.

As many models as possible fit at the same time, the pinned ones always among them. What their minimum leaves
is shared equally: each model is planned as if it were alone on a machine with its share of the memory.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from checks.machine import Machine
from checks.memory.estimate import DevicePart, device_parts, minimum_terms, part_terms
from checks.memory.plan import Plan
from checks.resources import enough_memory
from inference.finding import Finding, format_size, join_names

CPU = "cpu"
Bytes = Mapping[str, int]  # by device: "cpu", "cuda:0", "cuda:1", …


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """A model's plan, and whether it is never unloaded."""

    name: str
    plan: Plan
    is_pinned: bool = False


@dataclass(frozen=True, slots=True)
class ModelShare:
    """What one model takes while it is loaded.

    num_bytes        on each device
    context          most tokens of a sequence
    kv_memory_bytes  KV cache of all its processes together
    """

    num_bytes: Bytes
    context: int
    kv_memory_bytes: int


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """The memory plan of all models.

    capacity  bytes of each device
    shares    by the names of the models
    num_fits  models that fit together, whichever they are, the pinned ones among them
    """

    capacity: Bytes
    shares: Mapping[str, ModelShare]
    num_fits: int


def check_together(models: Sequence[PlannedModel], machine: Machine, max_models: int) -> Finding:
    """Whether the pinned models and the largest of the others fit together. max_models: 0: any number."""
    pinned, num_others = [model.name for model in models if model.is_pinned], count_others(models, machine)
    limit = max_models or len(models)
    is_ok = (num_others > 0 or len(pinned) == len(models)) and len(pinned) < max(limit, len(models) == limit)
    with_pinned = f"{join_names(pinned)} and " if pinned else ""
    capacity = capacity_of(machine)
    have = ", ".join(f"{format_size(num_bytes)} of {device}" for device, num_bytes in capacity.items())
    if not is_ok:
        fix = "pin fewer models, raise MAX_LOADED_MODELS, or take smaller models"
        return Finding("all models", f"{with_pinned}the largest other model together", have, False, fix)
    num_fits = min(limit, len(pinned) + num_others)
    return Finding("all models", f"{with_pinned}the largest other model", f"{have}: {num_fits} fit", True)


def share_memory(models: Sequence[PlannedModel], machine: Machine, max_models: int) -> SharedMemory:
    """Divide the memory. The finding of `check_together` must be ok."""
    capacity, num_pinned = capacity_of(machine), sum(model.is_pinned for model in models)
    num_fits = min(max_models or len(models), num_pinned + count_others(models, machine))
    minimum = bytes_together(models, num_fits - num_pinned)
    spare = {device: (limit - minimum.get(device, 0)) // num_fits for device, limit in capacity.items()}
    shares = {model.name: share_of(model.plan, machine, spare) for model in models}
    return SharedMemory(capacity, shares, num_fits)


def share_of(plan: Plan, machine: Machine, spare: Bytes) -> ModelShare:
    """What a model takes if it has `spare` bytes beyond its minimum."""
    minimum = minimum_bytes(plan)
    limits = {device: num_bytes + spare.get(device, 0) for device, num_bytes in minimum.items()}
    gpus = [replace(gpu, free=limits.get(f"cuda:{i}", gpu.free)) for i, gpu in enumerate(machine.gpus)]
    share = replace(machine, ram=limits[CPU] - plan.overhead.private, gpus=tuple(gpus))
    budget = enough_memory.plan_budget(plan, share)
    return ModelShare(
        device_bytes(plan, budget.kv_memory_bytes), budget.context, budget.kv_memory_bytes * plan.num_shard
    )


def capacity_of(machine: Machine) -> dict[str, int]:
    """The free bytes of each device."""
    return {CPU: machine.ram} | {f"cuda:{i}": gpu.free for i, gpu in enumerate(machine.gpus)}


def count_others(models: Sequence[PlannedModel], machine: Machine) -> int:
    """How many models that are not pinned fit beside the pinned ones, whichever they are."""
    capacity = capacity_of(machine)
    for count in range(sum(not model.is_pinned for model in models), 0, -1):
        together = bytes_together(models, count)
        if all(together.get(device, 0) <= limit for device, limit in capacity.items()):
            return count
    return 0


def bytes_together(models: Sequence[PlannedModel], num_others: int) -> dict[str, int]:
    """The minimum of the pinned models and, on each device, of the `num_others` largest other ones."""
    pinned = [minimum_bytes(model.plan) for model in models if model.is_pinned]
    others = [minimum_bytes(model.plan) for model in models if not model.is_pinned]
    devices = {device for minimum in (*pinned, *others) for device in minimum}
    return {
        device: sum(minimum.get(device, 0) for minimum in pinned)
        + sum(sorted((minimum.get(device, 0) for minimum in others), reverse=True)[:num_others])
        for device in devices
    }


def minimum_bytes(plan: Plan) -> dict[str, int]:
    """What a model needs at least on each device, with the KV cache of one short answer."""
    assert plan.model_size is not None
    model_size = plan.model_size
    return _by_device(plan, lambda device_part: minimum_terms(plan, model_size, device_part).required)


def device_bytes(plan: Plan, kv_memory_bytes: int) -> dict[str, int]:
    """What a model takes on each device with `kv_memory_bytes` of KV cache in each process."""
    assert plan.model_size is not None
    model_size = plan.model_size
    return _by_device(
        plan, lambda device_part: part_terms(plan, model_size, device_part, kv_memory_bytes).required
    )


def with_adapters(num_bytes: Bytes, adapter_bytes: int, num_shard: int) -> dict[str, int]:
    """What a model takes with adapters of `adapter_bytes` in each of its processes.

    Each of its GPUs counts them all, also if its layers are on several.
    """
    gpus = [device for device in num_bytes if device != CPU]
    added = dict.fromkeys(gpus, adapter_bytes) or {CPU: adapter_bytes * max(1, num_shard)}
    return {device: each + added.get(device, 0) for device, each in num_bytes.items()}


def _by_device(plan: Plan, num_bytes_of: Callable[[DevicePart], int]) -> dict[str, int]:
    """The bytes of the model's parts on each device, in all its processes."""
    assert plan.model_size is not None
    by_device = {CPU: plan.overhead.ram * plan.num_shard}  # of a model on GPUs
    for device_part in device_parts(plan, plan.model_size):
        if device_part.device == CPU:
            by_device[CPU] = num_bytes_of(device_part) * plan.num_shard
            continue
        _, _, number = device_part.device.partition(":")
        gpus = [int(number)] if number else range(plan.num_shard)
        by_device |= {f"cuda:{gpu}": num_bytes_of(device_part) for gpu in gpus}
    return by_device
