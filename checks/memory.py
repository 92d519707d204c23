"""Does the model fit into memory, with room for the tokens of at least one answer? How much is left over?"""

from dataclasses import dataclass

from checks.finding import Finding, size
from checks.machine import Machine
from checks.measure import Measure
from checks.needs.needs import Part, fitting, least_terms, parts, room, terms_of, there
from checks.needs.terms import Terms
from checks.plan import Plan

# The tokens of the largest page that a seat may have on a device: of a row's last one, the rest is lost.
PAGES = {"cpu": 16, "cuda": 256}
SMALLER = "choose a configuration that fits, or a smaller model"


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
    need, have = plan.overhead.ram + largest_file(plan), there(plan, machine, "cpu")
    mend = "" if need <= have else f"free {size(need - have)}, or {SMALLER}"
    return Finding(shared("RAM", plan), size(need), machine.told("cpu", have), need <= have, mend)


def check_gpus(plan: Plan, machine: Machine) -> list[Finding]:
    """One for each GPU that holds a part of the model."""
    if plan.device == "cpu" or plan.measure is None:
        return []
    if not machine.gpus:
        mend = 'DEVICE = "cpu", or install an NVIDIA driver and run scripts/setup.sh again'
        return [Finding("GPU", "a CUDA device", machine.no_gpu or "none that torch sees", False, mend)]
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
        have, mend = f"memory for {max(0, fits)} tokens", f"CONTEXT = {fits}, or 0" if fits > 0 else SMALLER
        return Finding("context", f"{plan.context} tokens", have, False, mend)
    context = plan.context or min(plan.longest, fits)
    short = not plan.context and context < plan.longest
    note = f"; memory holds less than the model's {plan.longest}" if short else ""
    how = "" if plan.measure.asked else ", by a formula: the model cannot be asked"
    return Finding("context", f"{context} tokens", f"{plan.measure.token} bytes a token{how}{note}", True)


def budget(plan: Plan, machine: Machine) -> Budget:
    """Share out what the weights leave free. Only for a plan whose findings are all ok."""
    assert plan.measure is not None
    context = plan.context or min(plan.longest, fitting(plan, machine, plan.measure))
    pages = -(-context // PAGES[plan.device])
    row = plan.measure.row + plan.measure.token * pages * PAGES[plan.device]
    return Budget(context, plan.kv or min(room(plan, machine, plan.measure), plan.rows * row))


def full(plan: Plan, machine: Machine) -> dict[str, Terms]:
    """What each device's part comes to, by its name, once all rows have the whole context."""
    assert plan.measure is not None
    most = budget(plan, machine)
    tokens = min(plan.rows * most.context, plan.asked.tokens or plan.rows * most.context)
    kept = min(most.kv, plan.rows * plan.measure.row + plan.measure.token * tokens)
    measure = plan.measure
    return {part.name: terms_of(plan, measure, part, kept) for part in parts(plan, measure)}


def largest_file(plan: Plan) -> int:
    return max((file.size for file in plan.repository.files), default=0)


def finding(plan: Plan, machine: Machine, measure: Measure, part: Part) -> Finding:
    """Whether the part fits on its device."""
    found, have = least_terms(plan, measure, part), there(plan, machine, part.device)
    short = found.most - have
    mend = f"free {size(short)}, or {SMALLER}" if short > 0 else ""
    told = f"{size(found.most)}: {shares(found, measure.dtype if plan.quantise == 'none' else plan.quantise)}"
    return Finding(shared(part.name, plan), told, machine.told(part.device, have), short <= 0, mend)


def shares(found: Terms, form: str) -> str:
    """What the most is made of; if that is while it loads, what comes afterwards is no part of it."""
    told = f"{size(found.weights)} of {form} weights, {size(found.program)} of programs"
    if found.most > found.serving:
        return f"{told}, {size(found.transient)} while it loads"
    return f"{told}, {size(found.kv)} for tokens, {size(found.step)} for a step"


def shared(name: str, plan: Plan) -> str:
    return f"{name} a shard" if plan.shards > 1 else name
