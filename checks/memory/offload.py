"""Offloading: how many layers fit on each GPU if the whole model does not; the rest goes to the CPU."""

from collections.abc import Sequence

from checks.machine import Machine
from checks.memory import ModelSize
from checks.memory.estimate import DevicePart, available_bytes, count_needed_bytes, device_parts
from checks.memory.plan import Plan, replan
from inference.model.placement.device_map import layer_devices


def offload_layers(plan: Plan, machine: Machine) -> list[int]:
    """The most layers for each GPU, filling the GPUs in order.

    Empty if the rest does not fit on the CPU, or if the model's layers are unknown.
    """
    model_size = plan.model_size
    num_layers = len(model_size.layer_weights) if model_size else 0
    if model_size is None or not num_layers:
        return []
    counts: list[int] = []
    for gpu in range(len(machine.gpus)):
        candidates = range(num_layers - sum(counts), 0, -1)
        counts.append(
            next((count for count in candidates if fits_on_gpu(plan, machine, [*counts, count], gpu)), 0)
        )
    candidate_plan = with_layer_counts(plan, counts)
    return (
        counts
        if all(
            fits_on_device(candidate_plan, machine, model_size, device_part)
            for device_part in device_parts(candidate_plan, model_size)
        )
        else []
    )


def with_layer_counts(plan: Plan, counts: Sequence[int]) -> Plan:
    """The plan with counts[i] layers on GPU i and the rest on the CPU."""
    assert plan.model_size is not None
    return replan(plan, layer_devices=layer_devices(counts, len(plan.model_size.layer_weights)))


def fits_on_gpu(plan: Plan, machine: Machine, counts: Sequence[int], gpu: int) -> bool:
    """Whether GPU `gpu` has memory for its part if GPU i has counts[i] layers."""
    candidate_plan, model_size = with_layer_counts(plan, counts), plan.model_size
    assert model_size is not None
    gpu_parts = [
        device_part
        for device_part in device_parts(candidate_plan, model_size)
        if device_part.device == f"cuda:{gpu}"
    ]
    return all(fits_on_device(candidate_plan, machine, model_size, device_part) for device_part in gpu_parts)


def fits_on_device(plan: Plan, machine: Machine, model_size: ModelSize, device_part: DevicePart) -> bool:
    return count_needed_bytes(plan, model_size, device_part) <= available_bytes(
        plan, machine, device_part.device
    )
