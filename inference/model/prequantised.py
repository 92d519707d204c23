"""Files whose weights are in fewer bits: which of these forms are unpacked as they are loaded.

Knows what transformers makes of each. A model whose weights are unpacked is one like any other.
"""

from collections.abc import Collection, Mapping
from typing import Any

QUANTISED = "quantization_config"  # where a config.json tells of it
UNPACK = "dequantize"  # there: that the weights are to be unpacked
# What reads compressed-tensors unpacks the whole model anyway, once it computes. The others are computed by
# kernels for GPUs.
ANYWHERE, ON_A_CPU = ("compressed-tensors",), ("fp8", "mxfp4")


def loading(asked: Mapping[str, Any], devices: Collection[str]) -> dict[str, Any]:
    """What a config.json says of weights in fewer bits, with how they are loaded on such devices."""
    form = asked.get("quant_method")
    fast = asked.get("use_optimized_inference") and "cpu" not in devices  # on those GPUs that have kernels
    wanted = (form in ANYWHERE and not fast) or (form in ON_A_CPU and "cpu" in devices)
    return {**asked, UNPACK: True} if wanted else dict(asked)


def shows_blind(asked: Mapping[str, Any]) -> bool:
    """Whether a model of that form can be loaded without values, and by no code that compiles or computes."""
    return asked.get("quant_method") in (*ANYWHERE, *ON_A_CPU)


def stays_packed(asked: Mapping[str, Any]) -> bool:
    return not asked.get(UNPACK)


def prepare(config: Any, devices: Collection[str]) -> None:
    """Have the model of a config loaded so."""
    asked = getattr(config, QUANTISED, None)
    if isinstance(asked, Mapping):
        config.quantization_config = loading(asked, devices)
