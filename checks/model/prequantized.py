"""Checks that transformers can load a checkpoint whose weights are already quantized, before the download.

Knows which package reads which format. checks/memory/quantized_size.py estimates the memory of the weights.
"""

from collections.abc import Mapping
from typing import Any

from transformers.quantizers import AutoHfQuantizer

from checks.machine import Machine
from checks.memory.plan import Plan
from checks.memory.planned_size import keeps_mxfp4_experts, quantization_config
from inference.errors import error_line
from inference.finding import Finding
from inference.model.load.checkpoint_quantization import stays_quantized
from inference.model.load.silence import silence_transformers

# Package on PyPI that reads each format. A format without one needs a GPU, or transformers itself reads it.
PACKAGES: Mapping[str, str] = {
    "aqlm": "'aqlm[cpu,gpu]'",
    "auto-round": "auto-round",
    "awq": "gptqmodel",
    "bitsandbytes": "bitsandbytes",
    "compressed-tensors": "compressed-tensors",
    "gptq": "optimum gptqmodel",
    "hqq": "hqq",
    "quanto": "optimum-quanto",
    "quark": "amd-quark",
    "torchao": "torchao",
    "vptq": "vptq",
}
UNQUANTIZED_FIX = "choose a model whose weights are not quantized"
UNCHECKED_FIX = 'QUANTIZE = "none", which serves the weights as they are stored, or choose another model'


def check(plan: Plan, machine: Machine) -> Finding | None:
    quantization = quantization_config(plan.repository, plan.request)
    method = str(quantization.get("quant_method", "quantized")) if quantization else ""
    expected_method = plan.request.stored_quantization
    if expected_method and method != expected_method:
        have = f"weights stored as {method}" if method else "weights that are not quantized"
        return Finding("quantized", f"weights stored as {expected_method}", have, False, UNCHECKED_FIX)
    if not quantization or plan.model_size is None:
        return None
    if why := find_blocker(quantization, plan.device):
        package = PACKAGES.get(method)
        fix = f"pip3 install {package}, or {UNQUANTIZED_FIX}" if package else UNQUANTIZED_FIX
        return Finding("quantized", method, why, False, fix)
    is_kept = keeps_mxfp4_experts(plan.repository, plan.request, plan.model_size.dtype)
    how = "kept quantized" if is_kept or stays_quantized(quantization) else "dequantized at load"
    return Finding("quantized", method, f"{how}, computed in {plan.model_size.dtype}", True)


def find_blocker(quantization: Mapping[str, Any], device: str) -> str:
    """transformers' error if it cannot load the format here; empty if it can."""
    try:
        with silence_transformers():
            quantizer = AutoHfQuantizer.from_config(dict(quantization), pre_quantized=True)
            quantizer.validate_environment(device_map={"": device}, weights_only=True)
    except Exception as error:  # each quantizer package raises its own errors
        return error_line(error)
    return ""
