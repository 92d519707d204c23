"""Checks that Triton can compile its kernels for a GPU. Only a warning: plain torch also serves."""

from checks.installation import triton_needs
from checks.machine import Machine
from checks.memory.plan import Plan
from inference.finding import Finding

COST = "attention in plain torch and no CUDA graphs, about 5 times slower"


def check(plan: Plan, machine: Machine) -> Finding | None:
    if plan.device != "cuda" or not machine.gpus:
        return None
    need, missing = "a C compiler, Python.h, triton", machine.missing_for_triton
    if not missing:
        return Finding("Triton", need, "present", True)
    have = f"without {', '.join(missing)}: {COST}"
    return Finding("Triton", need, have, True, triton_needs.describe_fix(missing))
