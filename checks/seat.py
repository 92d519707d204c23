"""Can the model be run in the SEAT that is asked for? What shows only in its logits, the load will find.

Knows where seats are not to be had, and what a model without values has said of them.
"""

from checks.finding import Finding
from checks.machine import Machine
from checks.measure.kept import AUTO, FUSED, PACKED
from checks.plan import Plan

MEND = 'SEAT = "auto"'


def check(plan: Plan, machine: Machine) -> Finding | None:
    seat = plan.asked.seat
    if seat == AUTO or plan.measure is None:
        return None
    have, mend = hindrance(plan, seat, plan.measure.unfit)
    return Finding("seat", seat, have or "a model that it takes", not have, mend)


def hindrance(plan: Plan, seat: str, unfit: str) -> tuple[str, str]:
    """What is in the way and how to mend it; both empty where nothing is."""
    if seat == FUSED and {plan.device, *plan.places} != {"cpu"}:
        return "a model on a GPU", f'{MEND}, or DEVICE = "cpu"'
    if seat == FUSED and plan.shards > 1:
        return f"a model that {plan.shards} processes share", f"{MEND}, or NUM_SHARD = 1"
    if seat == PACKED and plan.asked.alone:
        return "DETERMINISTIC, under which no seat is packed", f"{MEND}, or DETERMINISTIC = False"
    if unfit:
        return f"a model, {plan.repository.config.get('model_type')}, that it refuses: {unfit}", MEND
    return "", ""
