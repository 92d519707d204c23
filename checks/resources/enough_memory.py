"""Checks that the model fits in memory with the KV cache of at least one answer, and plans the rest.

See checks/memory/ for the estimates.
"""

from dataclasses import dataclass

from checks.machine import Machine
from checks.memory import ModelSize
from checks.memory.estimate import (
    DevicePart,
    available_bytes,
    available_kv_memory_bytes,
    device_parts,
    fitting_context,
    kv_bytes_of,
    kv_limits,
    minimum_terms,
    part_terms,
    tuning_bytes,
)
from checks.memory.plan import Plan
from checks.memory.terms import DeviceTerms
from inference.finding import Finding, format_size
from inference.model.kv_cost import KVCost

SMALLER_FIX = "choose a configuration that fits, or a smaller model"


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """What serving may use: most tokens of a sequence, and bytes of KV cache for all of them per process."""

    context: int
    kv_memory_bytes: int


def check_ram(plan: Plan, machine: Machine) -> Finding | None:
    if plan.model_size is None:
        return None
    device_part = next(
        (device_part for device_part in device_parts(plan, plan.model_size) if device_part.device == "cpu"),
        None,
    )
    if device_part:
        return check_device_part(plan, machine, plan.model_size, device_part)
    largest_file = max((file.size for file in plan.repository.files), default=0)
    need, have = plan.overhead.ram + largest_file, available_bytes(plan, machine, "cpu")
    fix = "" if need <= have else f"free {format_size(need - have)}, or {SMALLER_FIX}"
    return Finding(
        name_per_shard("RAM", plan), format_size(need), machine.describe_free("cpu", have), need <= have, fix
    )


def check_gpus(plan: Plan, machine: Machine) -> list[Finding]:
    """One finding for each GPU that has a part of the model."""
    if plan.device == "cpu" or plan.model_size is None:
        return []
    if not machine.gpus:
        driver_fix = machine.no_gpu_fix or "install an NVIDIA driver and run scripts/setup.sh again"
        fix = f'{driver_fix}; or DEVICE = "cpu"'
        return [Finding("GPU", "a CUDA device", machine.no_gpu_reason or "none visible to torch", False, fix)]
    model_size = plan.model_size
    return [
        check_device_part(plan, machine, model_size, device_part)
        for device_part in device_parts(plan, model_size)
        if device_part.device != "cpu"
    ]


def check_context(plan: Plan, machine: Machine) -> Finding | None:
    if plan.model_size is None:
        return None
    max_context = fitting_context(plan, machine, plan.model_size)
    if plan.context > max_context:
        have = f"memory for {max(0, max_context)} tokens"
        fix = f"CONTEXT = {max_context}, or 0" if max_context > 0 else SMALLER_FIX
        return Finding("context", f"{plan.context} tokens", have, False, fix)
    if plan.is_context_lowered:
        have = f"{plan.context} tokens, the model's limit, which is used"
        fix = f"CONTEXT = {plan.context}, or 0; ROPE_SCALING extends some models"
        return Finding("context", f"{plan.request.context} tokens", have, True, fix)
    if max_context < 1:
        fix = "KV_MEMORY_GB = 0, or a larger value" if plan.kv_memory_bytes else SMALLER_FIX
        return Finding("context", "1 token or more", "memory for 0 tokens", False, fix)
    context = plan.context or min(plan.default_context, max_context)
    is_reduced = not plan.context and context < plan.default_context
    note = f"; reduced to fit the memory, from the model's {plan.default_context}" if is_reduced else ""
    estimate_note = "" if plan.model_size.is_kv_measured else ", estimated by a formula"
    return Finding(
        "context",
        f"{context} tokens",
        f"{describe_kv_cost(plan.model_size.kv_cost)}{estimate_note}{note}",
        True,
    )


def describe_kv_cost(kv_cost: KVCost) -> str:
    """What a token takes in words, by the windows that it must be within."""
    windows = "".join(
        f" and {num_bytes} within a window of {window}" for window, num_bytes in kv_cost.windowed
    )
    return f"{kv_cost.per_token} bytes per token{windows}"


def plan_budget(plan: Plan, machine: Machine) -> MemoryBudget:
    """Divide the memory that the weights leave. All findings of the plan must be ok."""
    assert plan.model_size is not None
    context = plan.context or min(plan.default_context, fitting_context(plan, machine, plan.model_size))
    useful_bytes = kv_bytes_of(plan, plan.model_size, kv_limits(plan, context).max_tokens, context)
    return MemoryBudget(
        context,
        plan.kv_memory_bytes or min(available_kv_memory_bytes(plan, machine, plan.model_size), useful_bytes),
    )


def full_batch_terms(plan: Plan, machine: Machine) -> dict[str, DeviceTerms]:
    """The memory terms of each device when all rows have the whole context, by the device's name."""
    assert plan.model_size is not None
    memory_budget = plan_budget(plan, machine)
    num_tokens = min(
        plan.max_sequences * memory_budget.context,
        plan.request.max_batch_total_tokens or plan.max_sequences * memory_budget.context,
    )
    kv_memory_bytes = min(
        memory_budget.kv_memory_bytes, kv_bytes_of(plan, plan.model_size, num_tokens, memory_budget.context)
    )
    model_size = plan.model_size
    return {
        device_part.name: part_terms(plan, model_size, device_part, kv_memory_bytes)
        for device_part in device_parts(plan, model_size)
    }


def check_device_part(
    plan: Plan, machine: Machine, model_size: ModelSize, device_part: DevicePart
) -> Finding:
    """Whether the part fits on its device, with the KV cache of one short answer."""
    terms = minimum_terms(plan, model_size, device_part)
    have = available_bytes(plan, machine, device_part.device)
    shortfall = terms.required - have
    fix = f"free {format_size(shortfall)}, or {SMALLER_FIX}" if shortfall > 0 else ""
    weight_format = model_size.dtype if plan.quantize == "none" else plan.quantize
    need = f"{format_size(terms.required)}: {describe_terms(terms, weight_format)}"
    have_text = machine.describe_free(device_part.device, have) + describe_tuning(plan, device_part.device)
    return Finding(name_per_shard(device_part.name, plan), need, have_text, shortfall <= 0, fix)


def describe_tuning(plan: Plan, device: str) -> str:
    """What the free memory of the device lacks, as an addition to it; nothing where there is none."""
    num_bytes = tuning_bytes(plan, device)
    return f", beside {format_size(num_bytes)} of TUNING_MEMORY_GB" if num_bytes else ""


def describe_terms(terms: DeviceTerms, weight_format: str) -> str:
    """The terms of the peak in words; without those of serving, if loading is the peak."""
    text = (
        f"{format_size(terms.weights)} of {weight_format} weights, {format_size(terms.baseline)} of overhead"
    )
    text += f", {format_size(terms.adapters)} of adapters" if terms.adapters else ""
    text += f", {format_size(terms.draft_model)} of the draft model" if terms.draft_model else ""
    if terms.required > terms.serving:
        return f"{text}, {format_size(terms.load_peak)} while loading"
    text += f", {format_size(terms.grammars)} for grammars" if terms.grammars else ""
    return f"{text}, {format_size(terms.kv)} of KV cache, {format_size(terms.step)} of activations and logits"


def name_per_shard(name: str, plan: Plan) -> str:
    return f"{name} per shard" if plan.num_shard > 1 else name


def check_prompt(max_input_tokens: int, context: int, *, is_context_lowered: bool = False) -> Finding:
    """Check that MAX_INPUT_TOKENS leaves room for an answer. The refusal has TGI's wording.

    is_context_lowered: the model's limit lowered the requested context; it lowers MAX_INPUT_TOKENS as well.
    """
    need = f"{max_input_tokens} tokens"
    if max_input_tokens < context:
        return Finding("prompt", need, f"a context of {context} tokens", True)
    if is_context_lowered:
        have = f"{context - 1} tokens, which leave room for an answer"
        return Finding("prompt", need, have, True, f"MAX_INPUT_TOKENS = {context - 1}, or 0")
    have = f"`max_input_tokens`({max_input_tokens}) must be < `max_total_tokens`({context})"
    return Finding("prompt", need, have, False, f"MAX_INPUT_TOKENS = {context - 1}, or 0")
