"""Checks that QUANTIZE is possible: it needs a CPU, and native kernels built by a C compiler."""

from checks.device import find_cpu_only_blocker
from checks.machine import Machine
from checks.memory.plan import Plan, quantization_config
from inference.finding import Finding
from inference.model.load.checkpoint_quantization import stays_quantized
from inference.native.build import NativeUnavailable
from inference.native.library import library

FIX = 'QUANTIZE = "none"'
FLOAT16 = "float16"


def check(plan: Plan, machine: Machine) -> Finding | None:
    if plan.quantize == "none" or plan.model_size is None:
        return None
    have, fix = find_blocker(plan, plan.model_size.dtype)
    return Finding("quantize", plan.quantize, have or "kernels for this CPU", not have, fix)


def find_blocker(plan: Plan, dtype: str) -> tuple[str, str]:
    """Why the weights cannot be quantized, and the fix; both empty if they can."""
    have, setting = find_cpu_only_blocker(plan)
    if have:
        return have, f"{setting}, or {FIX}"
    if dtype == FLOAT16:
        return f"a model computed in {dtype}", f'DTYPE = "auto", or {FIX}'
    quantization = quantization_config(plan.repository, plan.request)
    if quantization and stays_quantized(quantization):
        return "weights that are already quantized", FIX
    try:
        library()
    except NativeUnavailable as reason:
        return f"no kernels: {reason}", f"install a C compiler, or {FIX}"
    return "", ""
