"""Does the model fit into memory, with room for the tokens of at least one answer? How much is left over?"""

from dataclasses import dataclass

from checks.finding import Finding, size
from checks.machine import Machine
from checks.measure import Measure
from checks.needs import PROGRAM, Part, fitting, least_kv, needed, parts, room, there
from checks.plan import Plan

SMALLER = "or choose a configuration that fits, or a smaller model"


@dataclass(frozen=True, slots=True)
class Budget:
    """What serving gets: tokens of context, and bytes for the tokens of running answers."""

    context: int
    kv: int


def check_ram(plan: Plan, machine: Machine) -> Finding | None:
    if plan.measure is None:
        return None
    part = next((part for part in parts(plan, plan.measure) if part.device == "cpu"), None)
    if part:
        return finding(plan, machine, plan.measure, part)
    need, have = PROGRAM + largest_file(plan), there(plan, machine, "cpu")
    mend = "" if need <= have else f"free {size(need - have)}, {SMALLER}"
    return Finding(shared("RAM", plan), size(need), f"{size(have)} free", need <= have, mend)


def check_gpus(plan: Plan, machine: Machine) -> list[Finding]:
    """One for each GPU that holds a part of the model."""
    if plan.device == "cpu" or plan.measure is None:
        return []
    if not machine.gpus:
        mend = 'DEVICE = "cpu", or install an NVIDIA driver and run scripts/setup.sh again'
        return [Finding("GPU", "a CUDA device", "none that torch sees", False, mend)]
    measure = plan.measure
    return [finding(plan, machine, measure, part) for part in parts(plan, measure) if part.device != "cpu"]


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
    return Budget(context, plan.kv or min(room(plan, machine, plan.measure), plan.rows * row))


def largest_file(plan: Plan) -> int:
    return max((file.size for file in plan.repository.files), default=0)


def finding(plan: Plan, machine: Machine, measure: Measure, part: Part) -> Finding:
    """Whether the part fits on its device."""
    need, have = needed(plan, measure, part), there(plan, machine, part.device)
    kept = size(least_kv(plan, measure) * part.kv)
    form = measure.dtype if plan.quantise == "none" else plan.quantise
    told = f"{size(need)}: {size(part.weights)} of {form} weights, {kept} for tokens"
    mend = "" if need <= have else f"free {size(need - have)}, {SMALLER}"
    return Finding(shared(part.name, plan), told, f"{size(have)} free", need <= have, mend)


def shared(name: str, plan: Plan) -> str:
    return f"{name} a shard" if plan.shards > 1 else name
