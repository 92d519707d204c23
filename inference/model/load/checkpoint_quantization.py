"""Decides which quantized checkpoints are dequantized at load.

Knows how transformers loads each format. A dequantized model is like any other.
"""

from collections.abc import Collection, Mapping
from typing import Any

QUANTIZATION_CONFIG = "quantization_config"  # the key in config.json
DEQUANTIZE = "dequantize"  # its option to dequantize at load
MXFP4 = "mxfp4"  # a quant_method
# transformers dequantizes a whole compressed-tensors model at its first forward pass anyway. The other
# formats have kernels for GPUs only.
DEQUANTIZE_ANYWHERE, DEQUANTIZE_ON_CPU = ("compressed-tensors",), ("fp8", MXFP4)


def quantization_for_loading(quantization: Mapping[str, Any], devices: Collection[str]) -> dict[str, Any]:
    """The quantization_config of a config.json, set to dequantize at load if these devices need it."""
    method = quantization.get("quant_method")
    # Only some GPUs have these kernels.
    fast = quantization.get("use_optimized_inference") and "cpu" not in devices
    dequantize = (method in DEQUANTIZE_ANYWHERE and not fast) or (
        method in DEQUANTIZE_ON_CPU and "cpu" in devices
    )
    return {**quantization, DEQUANTIZE: True} if dequantize else dict(quantization)


def can_load_on_meta(quantization: Mapping[str, Any]) -> bool:
    """Whether transformers can load the format on the meta device, without compiling or computing."""
    return quantization.get("quant_method") in (*DEQUANTIZE_ANYWHERE, *DEQUANTIZE_ON_CPU)


def stays_quantized(quantization: Mapping[str, Any]) -> bool:
    return not quantization.get(DEQUANTIZE)


def set_quantization(config: Any, devices: Collection[str]) -> None:
    """Set how the config's model is to be loaded on these devices; changes `config`."""
    quantization = getattr(config, QUANTIZATION_CONFIG, None)
    if isinstance(quantization, Mapping):
        config.quantization_config = quantization_for_loading(quantization, devices)
