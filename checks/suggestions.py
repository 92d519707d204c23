"""The nearest configurations that fit this machine, each a line to paste into config.py.

First the requested placement, then fewer bits per weight, then another placement. Each variant gives up, in
this order: the draft model, reserved memory, concurrent sequences, tokens of context.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

from checks.execution import quantize, shards
from checks.machine import Machine
from checks.memory import itemsize
from checks.memory.estimate import MIN_CONTEXT, count_needed_bytes, device_parts, fitting_context
from checks.memory.offload import offload_layers, with_layer_counts
from checks.memory.plan import Plan, replan
from checks.resources import enough_memory
from inference.finding import Finding, format_size
from inference.model.quantization.schemes import INT4, INT8

MAX_SUGGESTIONS = 3
CONTEXT_STEP = 256  # tokens; a suggested context is a multiple of it
# The checks that another configuration may pass.
FIT_CHECKS = (
    shards.check,
    quantize.check,
    enough_memory.check_ram,
    enough_memory.check_gpus,
    enough_memory.check_context,
)

Value = str | int
Variant = tuple[dict[str, Value], Plan]  # settings by their names in config.py, and the plan they make


@dataclass(frozen=True, slots=True)
class Configuration:
    """A configuration that fits.

    settings  the settings that differ from the request, by name
    need      memory per device, as text
    context   in tokens
    """

    settings: dict[str, Value]
    need: str
    context: int

    @property
    def config_line(self) -> str:
        """The settings as lines of config.py."""
        return "; ".join(f"{name} = {json.dumps(value)}" for name, value in self.settings.items())


def suggest(plan: Plan, machine: Machine) -> list[Configuration]:
    """At most MAX_SUGGESTIONS configurations, the nearest first; none if the plan fits or nothing does."""
    suggestions: list[Configuration] = []
    if plan.model_size is None or fits(plan, machine):
        return suggestions
    for variant in variants(plan, machine):
        if len(suggestions) < MAX_SUGGESTIONS and (reduced := shrink_until_fit(variant, machine)):
            candidate = to_configuration(reduced, machine)
            suggestions += [] if any(dominated(candidate, known) for known in suggestions) else [candidate]
    return suggestions


def dominated(candidate: Configuration, suggestion: Configuration) -> bool:
    """Whether `candidate` changes everything that `suggestion` changes, and has no more context."""
    return (
        suggestion.settings.items() <= candidate.settings.items() and suggestion.context >= candidate.context
    )


def fits(plan: Plan, machine: Machine) -> bool:
    return all(finding.ok for check in FIT_CHECKS for finding in as_list(check(plan, machine)))


def as_list(result: Finding | list[Finding] | None) -> list[Finding]:
    return result if isinstance(result, list) else [result] if result else []


def variants(plan: Plan, machine: Machine) -> Iterator[Variant]:
    """The plan with other dtypes and placements of its weights, the least change first."""
    unmoved, *moved = placements(plan, machine)
    yield from with_fewer_bits(unmoved)
    for variant in moved:
        yield from with_fewer_bits(variant)


def placements(plan: Plan, machine: Machine) -> Iterator[Variant]:
    """The plan as it is, then with other placements: split over GPUs and CPU, on the CPU, on the GPU."""
    yield {}, plan
    if plan.device == "cpu":
        if machine.gpus:
            yield {"DEVICE": "cuda"}, replan(plan, device="cuda")
        return
    if plan.num_shard == 1 and (counts := offload_layers(plan, machine)):
        yield {"LAYERS": ",".join(map(str, counts))}, with_layer_counts(plan, counts)
    settings: dict[str, Value] = {"DEVICE": "cpu"}
    settings |= {"LAYERS": ""} if plan.layer_devices else {}
    settings |= {"NUM_SHARD": 1} if plan.num_shard > 1 else {}
    yield settings, replan(plan, device="cpu", layer_devices=(), num_shard=1)


def with_fewer_bits(variant: Variant) -> Iterator[Variant]:
    """The plan as it is, then with fewer bits per weight."""
    settings, plan = variant
    yield variant
    assert plan.model_size is not None
    if itemsize(plan.model_size.dtype) == 4:
        yield settings | {"DTYPE": "bfloat16"}, replan(plan, dtype="bfloat16")
    if plan.num_shard == 1 and not plan.layer_devices and plan.quantize == "none":
        for scheme in (INT8, INT4):  # which every device has
            yield settings | {"QUANTIZE": scheme}, replan(plan, quantize=scheme)


def shrink_until_fit(variant: Variant, machine: Machine) -> Variant | None:
    """The first of the plan's smaller variants that fits; None if none does."""
    return next(
        (smaller for smaller in smaller_variants(variant, machine) if fits(smaller[1], machine)), None
    )


def smaller_variants(variant: Variant, machine: Machine) -> Iterator[Variant]:
    """The plan as it is, then without a draft model, reserved memory, some sequences, some context."""
    settings, plan = variant
    yield variant
    if plan.draft_plan is not None:
        settings, plan = settings | {"DRAFT_MODEL": ""}, replace(plan, draft_plan=None)
        yield settings, plan
    if plan.request.tuning_memory_bytes:
        settings, plan = settings | {"TUNING_MEMORY_GB": 0}, replan(plan, tuning_memory_bytes=0)
        yield settings, plan
    if plan.kv_memory_bytes:
        settings, plan = settings | {"KV_MEMORY_GB": 0}, replan(plan, kv_memory_bytes=0)
        yield settings, plan
    for max_sequences in halves(plan.max_sequences):
        yield settings | {"MAX_SEQUENCES": max_sequences}, replan(plan, max_sequences=max_sequences)
    assert plan.model_size is not None
    context = fitting_context(plan, machine, plan.model_size) // CONTEXT_STEP * CONTEXT_STEP
    if min(MIN_CONTEXT, plan.default_context) <= context < plan.context:
        yield settings | {"CONTEXT": context}, replan(plan, context=context)


def halves(number: int) -> Iterator[int]:
    while (number := number // 2) > 0:
        yield number


def to_configuration(variant: Variant, machine: Machine) -> Configuration:
    settings, plan = variant
    assert plan.model_size is not None
    need = ", ".join(
        f"{format_size(count_needed_bytes(plan, plan.model_size, device_part))} of {device_part.name}"
        for device_part in device_parts(plan, plan.model_size)
    )
    return Configuration(settings, need, enough_memory.plan_budget(plan, machine).context)
