"""Forms of weights in fewer bits: which are unpacked as they are loaded, on which devices."""

from types import SimpleNamespace

import pytest

from inference.model.prequantised import UNPACK, loading, prepare, shows_blind, stays_packed


@pytest.mark.parametrize(
    ("form", "devices", "packed"),
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
def test_unpacked_is_what_nobody_computes_packed(form: str, devices: tuple[str, ...], packed: bool) -> None:
    assert stays_packed(loading({"quant_method": form, "bits": 8}, devices)) is packed


def test_what_the_model_asks_for_on_gpus_is_left() -> None:
    asked = {"quant_method": "compressed-tensors", "use_optimized_inference": True}
    assert loading(asked, ("cuda",)) == asked and loading(asked, ("cpu",))[UNPACK]


def test_no_other_packages_code_runs_for_a_verdict() -> None:
    assert shows_blind({"quant_method": "fp8"}) and not shows_blind({"quant_method": "gptq"})


def test_a_config_is_changed_and_what_it_was_read_from_is_not() -> None:
    asked = {"quant_method": "fp8"}
    config = SimpleNamespace(quantization_config=asked)
    prepare(config, ("cpu",))
    assert config.quantization_config == {"quant_method": "fp8", UNPACK: True} and UNPACK not in asked
    prepare(SimpleNamespace(), ("cpu",))
