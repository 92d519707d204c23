"""The configurations nearest to the one asked for that fit this machine, each a line to paste into config.py.

First the model as it is asked for, then with fewer bits a weight, then at another place. Of each what is
given up comes in this order: memory held for tokens, sequences at a time, tokens of context. Knows plans and
the checks that judge them; measures nothing.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from checks import memory, quantise, shards
from checks.finding import Finding, size
from checks.machine import Machine
from checks.measure import itemsize
from checks.needs.needs import LEAST, fitting, needed, parts
from checks.needs.offload import offload, split
from checks.plan import Plan, replan

MOST = 3
STEP = 256  # tokens: what a context that is proposed is a multiple of
# The checks whose findings another configuration may change.
JUDGES = (shards.check, quantise.check, memory.check_ram, memory.check_gpus, memory.check_context)

Value = str | int
Changed = tuple[dict[str, Value], Plan]  # settings by their names in config.py, and the plan they make


@dataclass(frozen=True, slots=True)
class Configuration:
    """settings: those that differ from what was asked; need: memory, for people; context: in tokens."""

    settings: dict[str, Value]
    need: str
    context: int

    @property
    def line(self) -> str:
        """Python, as config.py is."""
        return "; ".join(f"{name} = {json.dumps(value)}" for name, value in self.settings.items())


def nearest(plan: Plan, machine: Machine) -> list[Configuration]:
    """At most three, the nearest first; none where the plan fits, or nothing does."""
    found: list[Configuration] = []
    if plan.measure is None or fits(plan, machine):
        return found
    for changed in forms(plan, machine):
        if len(found) < MOST and (shortest := shorter(changed, machine)):
            other = described(shortest, machine)
            found += [] if any(gives_up_more(other, known) for known in found) else [other]
    return found


def gives_up_more(other: Configuration, known: Configuration) -> bool:
    """Whether `other` changes all that `known` does and more, and gains no tokens by it."""
    return known.settings.items() <= other.settings.items() and known.context >= other.context


def fits(plan: Plan, machine: Machine) -> bool:
    return all(finding.ok for judge in JUDGES for finding in several(judge(plan, machine)))


def several(found: Finding | list[Finding] | None) -> list[Finding]:
    return found if isinstance(found, list) else [found] if found else []


def forms(plan: Plan, machine: Machine) -> Iterator[Changed]:
    """The plan with its weights in other forms and at other places, the least change first."""
    here, *elsewhere = places(plan, machine)
    yield from lighter(here)
    for changed in elsewhere:
        yield from lighter(changed)


def places(plan: Plan, machine: Machine) -> Iterator[Changed]:
    """The plan where it is; split over GPUs and CPU; on the CPU; on the GPU."""
    yield {}, plan
    if plan.device == "cpu":
        if machine.gpus and plan.quantise == "none":
            yield {"DEVICE": "cuda"}, replan(plan, device="cuda")
        return
    if plan.shards == 1 and (counts := offload(plan, machine)):
        yield {"LAYERS": ",".join(map(str, counts))}, split(plan, counts)
    settings: dict[str, Value] = {"DEVICE": "cpu"}
    settings |= {"LAYERS": ""} if plan.places else {}
    settings |= {"NUM_SHARD": 1} if plan.shards > 1 else {}
    yield settings, replan(plan, device="cpu", places=(), shards=1)


def lighter(changed: Changed) -> Iterator[Changed]:
    """The plan as it is, and with fewer bits a weight."""
    settings, plan = changed
    yield changed
    assert plan.measure is not None
    if itemsize(plan.measure.dtype) == 4:
        yield settings | {"DTYPE": "bfloat16"}, replan(plan, dtype="bfloat16")
    if plan.device == "cpu" and plan.shards == 1 and plan.quantise == "none":
        for kind in plan.measure.saves:
            yield settings | {"QUANTISE": kind}, replan(plan, quantise=kind)


def shorter(changed: Changed, machine: Machine) -> Changed | None:
    """The plan with the most of what was asked that fits; None where nothing of it does."""
    return next((trial for trial in shortened(changed, machine) if fits(trial[1], machine)), None)


def shortened(changed: Changed, machine: Machine) -> Iterator[Changed]:
    """The plan as it is; without memory held for tokens; with fewer sequences; with fewer tokens."""
    settings, plan = changed
    yield changed
    if plan.kv:
        settings, plan = settings | {"KV_MEMORY_GB": 0}, replan(plan, kv=0)
        yield settings, plan
    for rows in halves(plan.rows):
        yield settings | {"MAX_SEQUENCES": rows}, replan(plan, rows=rows)
    assert plan.measure is not None
    tokens = min(plan.limit or plan.context, fitting(plan, machine, plan.measure) // STEP * STEP)
    if min(LEAST, plan.longest) <= tokens < plan.context:
        yield settings | {"CONTEXT": tokens}, replan(plan, context=tokens)


def halves(number: int) -> Iterator[int]:
    while (number := number // 2) > 0:
        yield number


def described(changed: Changed, machine: Machine) -> Configuration:
    settings, plan = changed
    assert plan.measure is not None
    need = ", ".join(
        f"{size(needed(plan, plan.measure, part))} of {part.name}" for part in parts(plan, plan.measure)
    )
    return Configuration(settings, need, memory.budget(plan, machine).context)
