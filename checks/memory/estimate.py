"""The memory that a plan needs on each device of the model, and the memory that is available there.

On the CPU everything is in RAM. For a GPU the weights pass through RAM one file at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from checks.machine import Machine
from checks.memory import ModelSize
from checks.memory.plan import Plan
from checks.memory.terms import DeviceTerms, bytes_of_weights, compute_terms, is_first_device
from inference.model.kv_cost import KVLimits
from inference.model.load.device_dtype import default_kv_memory

MIN_CONTEXT = 2048  # tokens of context that must fit at least
# Tokens of the largest page of any runner, by device. A row leaves the rest of its last page unused.
MAX_PAGE_SIZES = {"cpu": 16, "cuda": 256}


@dataclass(frozen=True, slots=True)
class DevicePart:
    """The part of the model on one device: bytes of weights, and its share (0 to 1) of the KV cache."""

    device: str
    weights: int
    kv_share: float

    @property
    def name(self) -> str:
        """The name in findings: RAM, GPU, GPU 1."""
        kind, _, number = self.device.partition(":")
        return "RAM" if kind == "cpu" else f"GPU {number}".rstrip()


def device_parts(plan: Plan, model_size: ModelSize) -> tuple[DevicePart, ...]:
    """The parts of the model. The first one has the first layers and everything that belongs to no layer.

    The KV cache is divided evenly among the layers of the decoder, which assumes that they are equal or that
    their kinds alternate.
    """
    if not plan.layer_devices:
        return (DevicePart(plan.device, bytes_of_weights(plan, model_size), 1.0),)
    num_layers = len(plan.layer_devices)
    even_share = model_size.weights // num_layers  # if the sizes of the layers are unknown
    layer_weights = model_size.layer_weights or (even_share,) * num_layers
    layers = list(zip(plan.layer_devices, layer_weights, strict=True))
    decoder_devices = plan.layer_devices[model_size.num_encoder_layers :]
    other_weights = model_size.weights - sum(weights for _, weights in layers)
    return tuple(
        DevicePart(
            device,
            sum(weights for place, weights in layers if place == device)
            + other_weights * (device == plan.layer_devices[0]),
            decoder_devices.count(device) / len(decoder_devices),
        )
        for device in dict.fromkeys(plan.layer_devices)
    )


def count_needed_bytes(plan: Plan, model_size: ModelSize, device_part: DevicePart) -> int:
    """Bytes on the part's device: weights, baseline, and the KV cache of one short answer."""
    return minimum_terms(plan, model_size, device_part).required


def minimum_terms(plan: Plan, model_size: ModelSize, device_part: DevicePart) -> DeviceTerms:
    """The terms of the part's device with the KV cache of one short answer."""
    return part_terms(
        plan, model_size, device_part, plan.kv_memory_bytes or minimum_kv_memory_bytes(plan, model_size)
    )


def part_terms(
    plan: Plan, model_size: ModelSize, device_part: DevicePart, kv_memory_bytes: int
) -> DeviceTerms:
    """The terms of the part's device; `kv_memory_bytes` is the KV cache of all devices together."""
    return compute_terms(
        plan, model_size, device_part.device, device_part.weights, int(kv_memory_bytes * device_part.kv_share)
    )


def minimum_kv_memory_bytes(plan: Plan, model_size: ModelSize) -> int:
    context = min(plan.context or plan.default_context, MIN_CONTEXT)
    return model_size.kv_cost.sequence_bytes(context, kv_limits(plan, context))


def kv_limits(plan: Plan, context: int) -> KVLimits:
    """What the KV cache must suffice for, if each sequence has at most `context` tokens."""
    return KVLimits(plan.max_sequences, context, plan.max_batch_tokens, MAX_PAGE_SIZES[plan.device])


def kv_bytes_of(plan: Plan, model_size: ModelSize, num_tokens: int, context: int) -> int:
    """Bytes that num_tokens tokens of all sequences take in the KV cache."""
    return model_size.kv_cost.useful_bytes(num_tokens, kv_limits(plan, context))


def available_bytes(plan: Plan, machine: Machine, device: str) -> int:
    """Bytes of a device that are available to each process with a part of the model."""
    if device == "cpu":
        return max(0, machine.ram + plan.overhead.private - tuning_bytes(plan, device)) // plan.num_shard
    _, _, number = device.partition(":")
    gpus = machine.gpus[int(number) :][:1] if number else machine.gpus[: plan.num_shard]
    return max(0, min((gpu.free for gpu in gpus), default=0) - tuning_bytes(plan, device))


def tuning_bytes(plan: Plan, device: str) -> int:
    """Bytes of a device that are left to trainers, which compute on the plan's device, the first of several.

    Processes on several GPUs have KV caches of one size, so each is smaller by what the first GPU leaves.
    """
    return plan.request.tuning_memory_bytes if is_first_device(plan, device) else 0


def available_kv_memory_bytes(plan: Plan, machine: Machine, model_size: ModelSize) -> int:
    """Bytes for the KV cache on all devices together; the fullest device decides."""
    return min(kv_memory_bytes_by_device(plan, machine, model_size))


def kv_memory_bytes_by_device(plan: Plan, machine: Machine, model_size: ModelSize) -> Iterator[int]:
    for device_part in device_parts(plan, model_size):
        kind = "cpu" if device_part.device == "cpu" else "cuda"
        limit = max(
            0,
            available_bytes(plan, machine, device_part.device)
            - part_terms(plan, model_size, device_part, 0).fixed,
        )
        free_bytes = limit + tuning_bytes(plan, device_part.device)
        if device_part.kv_share:
            yield int(default_kv_memory(free_bytes, kind, useful=limit) / device_part.kv_share)


def fitting_context(plan: Plan, machine: Machine, model_size: ModelSize) -> int:
    """Tokens of one sequence that fit; the model's own context if a token needs no KV cache."""
    max_context = max(plan.context, plan.default_context)
    if not model_size.kv_cost.per_recent_token:
        return max_context
    num_bytes = plan.kv_memory_bytes or available_kv_memory_bytes(plan, machine, model_size)
    return model_size.kv_cost.max_sequence_tokens(num_bytes, kv_limits(plan, max_context))
