"""How many of a model's layers each GPU holds, where not all of them fit: the rest goes to the CPU."""

from collections.abc import Sequence

from checks.machine import Machine
from checks.measure import Measure
from checks.needs.needs import Part, needed, parts, there
from checks.plan import Plan, replan
from inference.model.split.spread import places


def offload(plan: Plan, machine: Machine) -> list[int]:
    """As many layers for each GPU in turn as it holds; empty where the CPU does not hold the rest.

    Also empty where the model's layers are not known.
    """
    measure = plan.measure
    total = len(measure.layers) if measure else 0
    if measure is None or not total:
        return []
    counts: list[int] = []
    for gpu in range(len(machine.gpus)):
        most = range(total - sum(counts), 0, -1)
        counts.append(next((count for count in most if holds(plan, machine, [*counts, count], gpu)), 0))
    trial = split(plan, counts)
    return counts if all(fit(trial, machine, measure, part) for part in parts(trial, measure)) else []


def split(plan: Plan, counts: Sequence[int]) -> Plan:
    """The plan with so many layers on each GPU, the rest on the CPU."""
    assert plan.measure is not None
    return replan(plan, places=places(counts, len(plan.measure.layers)))


def holds(plan: Plan, machine: Machine, counts: Sequence[int], gpu: int) -> bool:
    """Whether GPU `gpu` holds its part when the GPUs have so many layers."""
    trial, measure = split(plan, counts), plan.measure
    assert measure is not None
    mine = [part for part in parts(trial, measure) if part.device == f"cuda:{gpu}"]
    return all(fit(trial, machine, measure, part) for part in mine)


def fit(plan: Plan, machine: Machine, measure: Measure, part: Part) -> bool:
    return needed(plan, measure, part) <= there(plan, machine, part.device)
