"""Can the device compute with the numbers that were chosen? memory.py judges what it can hold."""

from checks.finding import Finding
from checks.machine import Machine
from checks.plan import Plan

HALF = "bfloat16"


def check(plan: Plan, machine: Machine) -> Finding | None:
    if plan.measure is None:
        return None
    dtype = plan.measure.dtype
    if plan.device == "cpu":
        return Finding("device", f"{dtype} on the CPU", on_cpu(dtype, machine), True)
    if not machine.gpus:
        return None
    gpus = machine.gpus[: max(plan.shards, len({place for place in plan.places if place != "cpu"}))]
    have = ", ".join(dict.fromkeys(gpu.name for gpu in gpus))
    need, lacks = f"{dtype} on a GPU", next((gpu.lacks for gpu in gpus if gpu.lacks), "")
    if lacks:
        mend = 'DEVICE = "cpu", or a torch that is built for this GPU'
        return Finding("device", need, f"{have}: {lacks}", False, mend)
    if dtype == HALF and "cuda" not in machine.bfloat16:
        mend = 'DTYPE = "auto", which takes float16 there'
        return Finding("device", need, f"{have}, older than Ampere: without {HALF}", False, mend)
    return Finding("device", need, have, True)


def on_cpu(dtype: str, machine: Machine) -> str:
    """What becomes of the numbers; and why no GPU computes them, where a driver for one is here."""
    slow = dtype == HALF and "cpu" not in machine.bfloat16
    gpu = f"; {machine.no_gpu}" if "driver is here" in machine.no_gpu else ""
    return ("emulated, slower than float32" if slow else "computed as they are") + gpu
