"""Quantized weight formats: which are dequantized on loading, on which devices."""

from types import SimpleNamespace

import pytest

from inference.model.load.checkpoint_quantization import (
    DEQUANTIZE,
    can_load_on_meta,
    quantization_for_loading,
    set_quantization,
    stays_quantized,
)


@pytest.mark.parametrize(
    ("quant_method", "devices", "expected"),
    [
        ("compressed-tensors", ("cpu",), False),
        ("compressed-tensors", ("cuda",), False),
        ("fp8", ("cpu",), False),
        ("fp8", ("cuda",), True),
        ("fp8", ("cuda:0", "cpu"), False),
        ("mxfp4", ("cpu",), False),
        ("mxfp4", ("cuda",), True),
        ("bitsandbytes", ("cpu",), True),
    ],
)
def test_weights_are_dequantized_unless_a_library_computes_with_them(
    quant_method: str, devices: tuple[str, ...], expected: bool
) -> None:
    assert (
        stays_quantized(quantization_for_loading({"quant_method": quant_method, "bits": 8}, devices))
        is expected
    )


def test_optimized_inference_is_kept_on_gpus() -> None:
    quantization_config = {"quant_method": "compressed-tensors", "use_optimized_inference": True}
    assert (
        quantization_for_loading(quantization_config, ("cuda",)) == quantization_config
        and quantization_for_loading(quantization_config, ("cpu",))[DEQUANTIZE]
    )


def test_formats_that_run_other_packages_code_are_not_loaded_on_meta() -> None:
    assert can_load_on_meta({"quant_method": "fp8"}) and not can_load_on_meta({"quant_method": "gptq"})


def test_setting_the_quantization_copies_the_config() -> None:
    quantization_config = {"quant_method": "fp8"}
    config = SimpleNamespace(quantization_config=quantization_config)
    set_quantization(config, ("cpu",))
    assert (
        config.quantization_config == {"quant_method": "fp8", DEQUANTIZE: True}
        and DEQUANTIZE not in quantization_config
    )
    set_quantization(SimpleNamespace(), ("cpu",))
