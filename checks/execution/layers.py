"""Resolves LAYERS, Neodim's list of the number of layers on each GPU, and reports where the layers are.

Layers that the list leaves out are on the CPU.

The layers of an encoder are counted before those of the decoder, because they compute first.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from checks.machine import Machine
from checks.memory import try_build_on_meta
from checks.memory.plan import Plan
from hub.model_config import DECODER_LAYER_COUNT_KEYS, LAYER_COUNT_KEYS
from inference.finding import Finding, Refused, format_count
from inference.model.placement.device_map import CPU, layer_devices, layer_stacks

log = logging.getLogger(__name__)

REMAINING = "a"  # all layers that no other GPU has
FIX = 'LAYERS = "0" for the CPU, "a" for the GPU, or "", and DEVICE'


def check(plan: Plan, machine: Machine) -> Finding | None:
    """Report the number of layers, which LAYERS divides, and where they are."""
    if plan.model_size is None:
        return None
    num_layers = len(plan.layer_devices or plan.model_size.layer_weights)
    return Finding("layers", str(num_layers), describe_places(plan), True) if num_layers else None


def describe_places(plan: Plan) -> str:
    """Where the layers are: "4 on GPU 0, 20 on the CPU"."""
    if plan.num_shard > 1:
        return f"each divided among {format_count(plan.num_shard, 'shard')}"
    counts = Counter(map(device_name, plan.layer_devices))
    if not counts:
        return f"all on {device_name(plan.device)}"
    return ", ".join(f"{count} on {name}" for name, count in counts.items())


def device_name(device: str) -> str:
    """The name of a torch device in messages: "the CPU" or "GPU 1"."""
    kind, _, number = device.partition(":")
    return "the CPU" if kind == CPU else f"GPU {number or 0}"


def place_layers(layers: str, config: Mapping[str, Any], *, num_gpus: int) -> tuple[str, tuple[str, ...]]:
    """Returns "cpu" or "cuda", and the device of each layer: empty if all are on the CPU or on the first GPU.

    Without a GPU all layers are on the CPU, and a warning is logged. Raises Refused.
    """
    counts = parse_layers(layers)
    if not any(counts):
        return CPU, ()
    if not num_gpus:
        log.warning("LAYERS=%s needs a GPU, and torch sees none: all layers run on the CPU", layers)
        return CPU, ()
    check_gpus(layers, counts, num_gpus)
    devices = assign_devices(layers, counts, count_layers(config))
    return "cuda", () if set(devices) == {"cuda:0"} else devices


def parse_layers(layers: str) -> list[int | str]:
    """The number of layers of each GPU, or REMAINING. Raises Refused."""
    counts = [count.strip().lower() for count in layers.split(",")]
    if counts.count(REMAINING) > 1 or not all(count == REMAINING or count.isdecimal() for count in counts):
        raise layers_error(layers, "not a list such as 20,a: numbers separated by commas, with at most one a")
    return [count if count == REMAINING else int(count) for count in counts]


def check_gpus(layers: str, counts: Sequence[int | str], num_gpus: int) -> None:
    """Raise Refused if layers are assigned to a GPU that does not exist."""
    missing = next((gpu for gpu in range(num_gpus, len(counts)) if counts[gpu]), None)
    if missing is not None:
        have = f"{format_count(num_gpus, 'GPU')}, numbered from 0"
        raise layers_error(layers, f"{have}: there is no GPU {missing}")


def assign_devices(layers: str, counts: Sequence[int | str], num_layers: int | None) -> tuple[str, ...]:
    """The device of each layer. Raises Refused if the model has fewer layers than LAYERS places on GPUs.

    A single number may exceed the layers and then means all, as in llama.cpp, where -ngl 99 is customary.
    """
    if num_layers is None:
        if counts[0] == REMAINING and not any(counts[1:]):
            return ("cuda:0",)
        raise layers_error(layers, "the model's layers cannot be counted before it is loaded")
    if len(counts) == 1 and isinstance(counts[0], int):
        counts = [min(counts[0], num_layers)]
    num_placed = sum(count for count in counts if isinstance(count, int))
    if num_placed > num_layers:
        raise layers_error(layers, f"the model has {num_layers} layers")
    return layer_devices(
        [num_layers - num_placed if isinstance(count, str) else count for count in counts], num_layers
    )


def count_layers(config: Mapping[str, Any]) -> int | None:
    """The number of layers of a config.json's model; None if unknown.

    The keys of the config, perhaps of its text_config, decide for a model that only its own code can build.
    """
    if model := try_build_on_meta(config):
        return sum(map(len, layer_stacks(model)))
    sections, names = (config, config.get("text_config") or {}), LAYER_COUNT_KEYS + DECODER_LAYER_COUNT_KEYS
    return next((int(section[name]) for section in sections for name in names if section.get(name)), None)


def layers_error(layers: str, have: str) -> Refused:
    return Refused(Finding("layers", layers, have, False, FIX))
