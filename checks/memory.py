"""Does the model fit into memory, with room for the tokens of at least one answer? And how much is left over?

On the CPU everything is in RAM. On a GPU the weights pass through RAM a file at a time, and stay on the GPU.
"""

from dataclasses import dataclass

from checks.finding import Finding, size
from checks.machine import Machine
from checks.measure import Measure, itemsize, stored_dtype
from checks.plan import Plan
from inference.model.place import kv_bytes

LEAST = 2048  # tokens of context below which a model is not worth starting
PROGRAM = 600_000_000  # bytes: Python, torch and transformers in RAM
CUDA = 700_000_000  # bytes: CUDA's context and libraries on the GPU
CONVERTING = 1.13  # of the weights, when their dtype changes at load (measured)
FRAGMENTS = 1.02  # of the weights, for what the GPU's allocator cannot use


@dataclass(frozen=True, slots=True)
class Budget:
    """What serving gets: tokens of context, and bytes for the tokens of running answers."""

    context: int
    kv: int


def check_ram(plan: Plan, machine: Machine) -> Finding | None:
    if plan.measure is None:
        return None
    on_cpu = plan.device == "cpu"
    need = needed(plan, plan.measure) if on_cpu else PROGRAM + largest_file(plan)
    return finding("RAM", need, ram(plan, machine), plan, plan.measure, breakdown=on_cpu)


def check_gpu(plan: Plan, machine: Machine) -> Finding | None:
    if plan.device == "cpu" or plan.measure is None:
        return None
    if not machine.gpus:
        mend = 'DEVICE = "cpu", or install an NVIDIA driver and run scripts/setup.sh again'
        return Finding("GPU", "a CUDA device", "none that torch sees", False, mend)
    return finding("GPU", needed(plan, plan.measure), gpu(plan, machine), plan, plan.measure, breakdown=True)


def check_context(plan: Plan, machine: Machine) -> Finding | None:
    if plan.measure is None:
        return None
    fits = fitting(plan, machine, plan.measure)
    if plan.limit and plan.context > plan.limit:
        have = f"{plan.limit} tokens, the model's own limit"
        return Finding("context", f"{plan.context} tokens", have, False, f"CONTEXT = {plan.limit}, or 0")
    if plan.context > fits:
        have = f"memory for {fits} tokens"
        return Finding("context", f"{plan.context} tokens", have, False, f"CONTEXT = {fits}, or 0")
    context = plan.context or min(plan.longest, fits)
    short = not plan.context and context < plan.longest
    note = f"; memory holds less than the model's {plan.longest}" if short else ""
    return Finding("context", f"{context} tokens", f"{plan.measure.token} bytes a token{note}", True)


def budget(plan: Plan, machine: Machine) -> Budget:
    """Share out what the weights leave free. Only for a plan whose findings are all ok."""
    assert plan.measure is not None
    context = plan.context or min(plan.longest, fitting(plan, machine, plan.measure))
    row = plan.measure.row + plan.measure.token * context
    return Budget(
        context, plan.kv or kv_bytes(left(plan, machine, plan.measure), plan.device, plan.rows * row)
    )


def needed(plan: Plan, measure: Measure) -> int:
    return weights(plan, measure) + (plan.kv or least_kv(plan, measure))


def weights(plan: Plan, measure: Measure) -> int:
    """Bytes on the plan's device, with the programs that come along."""
    if plan.device != "cpu":
        return int(measure.weights * FRAGMENTS) + CUDA
    converted = measure.dtype != stored_dtype(plan.repository.config)
    return int(measure.weights * (CONVERTING if converted else 1)) + PROGRAM


def least_kv(plan: Plan, measure: Measure) -> int:
    return measure.row + measure.token * min(plan.context or plan.longest, LEAST)


def left(plan: Plan, machine: Machine, measure: Measure) -> int:
    """Bytes that the weights leave free on the plan's device."""
    there = ram(plan, machine) if plan.device == "cpu" else gpu(plan, machine)
    return max(0, there - weights(plan, measure))


def ram(plan: Plan, machine: Machine) -> int:
    """Bytes of RAM that each process which has a part of the model can have."""
    return machine.ram // plan.shards


def gpu(plan: Plan, machine: Machine) -> int:
    """Free bytes of the fullest GPU that takes part."""
    return min((gpu.free for gpu in machine.gpus[: plan.shards]), default=0)


def fitting(plan: Plan, machine: Machine, measure: Measure) -> int:
    """Tokens of one sequence that the memory holds; the model's own length where they cost nothing."""
    room = plan.kv or kv_bytes(left(plan, machine, measure), plan.device, None)
    longest = max(plan.context, plan.longest)
    return min(longest, (room - measure.row) // measure.token) if measure.token else longest


def largest_file(plan: Plan) -> int:
    return max((file.size for file in plan.repository.files), default=0)


def finding(name: str, need: int, have: int, plan: Plan, measure: Measure, *, breakdown: bool) -> Finding:
    parts = (
        f": {size(measure.weights)} of {measure.dtype} weights, {size(least_kv(plan, measure))} for tokens"
    )
    ok = need <= have
    mend = "" if ok else remedy(plan, measure, have)
    name = f"{name} a shard" if plan.shards > 1 else name
    return Finding(name, size(need) + (parts if breakdown else ""), f"{size(have)} free", ok, mend)


def remedy(plan: Plan, measure: Measure, have: int) -> str:
    """The change of settings that makes it fit, if there is one."""
    if plan.kv and needed(plan, measure) - plan.kv + least_kv(plan, measure) <= have:
        return "KV_MEMORY_GB = 0, which takes what is free"
    if itemsize(measure.dtype) == 4 and needed(plan, measure) - measure.weights // 2 <= have:
        return 'DTYPE = "bfloat16", which halves the weights'
    if plan.device != "cpu":
        return 'DEVICE = "cpu" if there is RAM enough, or a smaller model'
    return f"free {size(needed(plan, measure) - have)}, or choose a smaller model"
