"""Can weights be quantised here? It takes a CPU, and the kernels that a C compiler makes for it."""

from checks.finding import Finding
from checks.machine import Machine
from checks.plan import Plan, packing
from inference.model.prequantised import stays_packed
from inference.native.build import Unbuilt
from inference.native.library import library

MEND = 'QUANTISE = "none"'
HALF = "float16"


def check(plan: Plan, machine: Machine) -> Finding | None:
    if plan.quantise == "none" or plan.measure is None:
        return None
    have, mend = hindrance(plan, plan.measure.dtype)
    return Finding("quantise", plan.quantise, have or "kernels for this processor", not have, mend)


def hindrance(plan: Plan, dtype: str) -> tuple[str, str]:
    """What is in the way and how to mend it; both empty where nothing is."""
    if plan.device != "cpu":
        return "a model on a GPU", f'DEVICE = "cpu", or {MEND}'
    if plan.shards > 1:
        return f"a model that {plan.shards} processes share", f"NUM_SHARD = 1, or {MEND}"
    if dtype == HALF:
        return f"a model computed in {dtype}", f'DTYPE = "auto", or {MEND}'
    form = packing(plan.repository, plan.asked)
    if form and stays_packed(form):
        return "weights that are quantised already", MEND
    try:
        library()
    except Unbuilt as reason:
        return f"no kernels: {reason}", f"install a C compiler, or {MEND}"
    return "", ""
