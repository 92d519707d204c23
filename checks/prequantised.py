"""Can weights that are quantised in their files be loaded here? Asked of transformers, before the download.

Knows which packages read which form; what a form takes in memory is told by the model itself, see measure/.
"""

from collections.abc import Mapping
from typing import Any

from transformers.quantizers import AutoHfQuantizer

from checks.finding import Finding
from checks.machine import Machine
from checks.plan import Plan, packing
from checks.silence import silent
from inference.errors import said
from inference.model.prequantised import stays_packed

# What reads a form, as pip knows it; those that are not here ask for a GPU, or are read by transformers.
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
OTHERWISE = "choose a model whose weights are not quantised"


def check(plan: Plan, machine: Machine) -> Finding | None:
    asked = packing(plan.repository, plan.asked)
    if not asked or plan.measure is None:
        return None
    form = str(asked.get("quant_method", "quantised"))
    if why := hindrance(asked, plan.device):
        package = PACKAGES.get(form)
        mend = f"pip3 install {package}, or {OTHERWISE}" if package else OTHERWISE
        return Finding("quantised", form, why, False, mend)
    read = "read" if stays_packed(asked) else "unpacked as it is loaded"
    return Finding("quantised", form, f"{read}, and computed in {plan.measure.dtype}", True)


def hindrance(asked: Mapping[str, Any], device: str) -> str:
    """Why the form cannot be read here, in transformers' words; empty where it can."""
    try:
        with silent():
            quantiser = AutoHfQuantizer.from_config(dict(asked), pre_quantized=True)
            quantiser.validate_environment(device_map={"": device}, weights_only=True)
    except Exception as error:  # whatever a package that is missing, or is there, has to say
        return said(error)
    return ""
