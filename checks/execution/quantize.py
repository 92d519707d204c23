"""Checks that QUANTIZE is possible: on one device, and on a CPU with native kernels built by a C compiler.

Also that the file of IMATRIX can be read.
"""

from checks.machine import Machine
from checks.memory.plan import Plan
from checks.memory.planned_size import quantization_config
from inference.finding import Finding
from inference.model.load.checkpoint_quantization import stays_quantized
from inference.model.quantization.imatrix import BadImatrix, read_imatrix
from inference.model.quantization.schemes import DEVICE_SCHEMES
from inference.native.build import NativeUnavailable
from inference.native.library import library

FIX = 'QUANTIZE = "none"'
FLOAT16 = "float16"


def check(plan: Plan, machine: Machine) -> Finding | None:
    if plan.quantize == "none" or plan.model_size is None:
        return None
    have, fix = find_blocker(plan, plan.model_size.dtype)
    kernels = f"kernels for this {'CPU' if plan.device == 'cpu' else 'GPU'}"
    return Finding("quantize", plan.quantize, have or kernels, not have, fix)


def find_blocker(plan: Plan, dtype: str) -> tuple[str, str]:
    """Why the weights cannot be quantized, and the fix; both empty if they can."""
    if plan.num_shard > 1:
        return f"a model shared by {plan.num_shard} processes", f"NUM_SHARD = 1, or {FIX}"
    if plan.layer_devices:
        return "layers on several devices", f'LAYERS = "", or {FIX}'
    if dtype == FLOAT16:
        return f"a model computed in {dtype}", f'DTYPE = "auto", or {FIX}'
    quantization = quantization_config(plan.repository, plan.request)
    if quantization and stays_quantized(quantization):
        return "weights that are already quantized", FIX
    if plan.quantize not in DEVICE_SCHEMES[plan.device]:
        return "kernels for a CPU only", 'QUANTIZE = "int4", or DEVICE = "cpu"'
    if plan.device != "cpu":
        return "", ""
    if plan.request.imatrix is not None:
        try:
            read_imatrix(plan.request.imatrix)
        except BadImatrix as error:
            return str(error), f'IMATRIX = "", or another file of llama-imatrix, or {FIX}'
    try:
        library()
    except NativeUnavailable as reason:
        return f"no kernels: {reason}", f"install a C compiler, or {FIX}"
    return "", ""
