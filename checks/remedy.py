"""What to set so that a model fits which does not. Knows what is needed and what there is."""

from dataclasses import replace

from checks.finding import size
from checks.machine import Machine
from checks.measure import Measure, itemsize
from checks.needs import Part, least_kv, needed, parts, there
from checks.plan import Plan
from inference.model.split.spread import places


def remedy(plan: Plan, machine: Machine, measure: Measure, part: Part) -> str:
    """The change of settings that makes the part fit on its device, if there is one."""
    need, have = needed(plan, measure, part), there(plan, machine, part.device)
    if plan.kv and need - int((plan.kv - least_kv(plan, measure)) * part.kv) <= have:
        return "KV_MEMORY_GB = 0, which takes what is free"
    if itemsize(measure.dtype) == 4 and need - part.weights // 2 <= have:
        return 'DTYPE = "bfloat16", which halves the weights'
    if plan.device == "cpu" and plan.shards == 1 and (kind := quantised(plan, machine, measure)):
        return f'QUANTISE = "{kind}"'
    if plan.device != "cpu" and plan.shards == 1 and (fits := nearest(plan, machine, measure)):
        return f'LAYERS = "{fits}"'
    if plan.device != "cpu":
        return 'DEVICE = "cpu" if there is RAM enough, or a smaller model'
    return f"free {size(need - have)}, or choose a smaller model"


def quantised(plan: Plan, machine: Machine, measure: Measure) -> str:
    """What QUANTISE must be for the model to fit into RAM; empty if nothing makes it fit."""
    for kind in measure.saves if plan.quantise == "none" else ():
        trial = replace(plan, quantise=kind)
        if all(fit(trial, machine, measure, part) for part in parts(trial, measure)):
            return kind
    return ""


def nearest(plan: Plan, machine: Machine, measure: Measure) -> str:
    """The list that gives each GPU in turn as many layers as fit, the rest to the CPU; empty if it is full.

    Also empty where the model's layers are not known.
    """
    total = len(measure.layers)
    counts: list[int] = []
    for gpu in range(len(machine.gpus)) if total else ():
        most = total - sum(counts)
        fits = (count for count in range(most, 0, -1) if holds(plan, machine, measure, [*counts, count], gpu))
        counts.append(next(fits, 0))
    trial = replace(plan, places=places(counts, total))
    if not total or not all(fit(trial, machine, measure, part) for part in parts(trial, measure)):
        return ""
    return ",".join(map(str, counts))


def holds(plan: Plan, machine: Machine, measure: Measure, counts: list[int], gpu: int) -> bool:
    """Whether GPU `gpu` holds its part when the GPUs have so many layers."""
    trial = replace(plan, places=places(counts, len(measure.layers)))
    mine = [part for part in parts(trial, measure) if part.device == f"cuda:{gpu}"]
    return all(fit(trial, machine, measure, part) for part in mine)


def fit(plan: Plan, machine: Machine, measure: Measure, part: Part) -> bool:
    return needed(plan, measure, part) <= there(plan, machine, part.device)
