"""A base over packed weights: it computes in float32, so that its log probabilities are the server's."""

from pathlib import Path

import pytest
import torch

from inference.model.quantization.replace import packed_weights
from inference.native.build import NativeUnavailable
from inference.native.packed_matrix import ensure_library
from settings.groups import ModelSettings
from tuning.trainer.model.base_model import PROBE_IDS, check_packing, load_base

try:
    ensure_library()
except NativeUnavailable as reason:
    pytest.skip(f"no native library: {reason}", allow_module_level=True)


@pytest.mark.parametrize("quantize", ["int8", "int4", "q4_k_m"])
@torch.no_grad()
def test_a_packed_base_in_bfloat16_computes_as_in_float32(wide_model_folder: Path, quantize: str) -> None:
    """The weights of the folder are in bfloat16, so both dtypes have the same values."""
    of_dtype = [
        load_base(wide_model_folder, ModelSettings(dtype=dtype, device="cpu", quantize=quantize)).causal
        for dtype in ("bfloat16", "float32")
    ]
    ids = torch.tensor([PROBE_IDS])
    logits, expected = (causal(input_ids=ids, use_cache=False).logits for causal in of_dtype)
    assert logits.dtype == torch.float32
    assert (logits - expected).abs().max() <= 1e-5
    assert not any(weight.num_unpacked for weight, _ in packed_weights(of_dtype[0]))


def test_a_plain_base_in_bfloat16_computes_in_bfloat16(model_folder: Path) -> None:
    base = load_base(model_folder, ModelSettings(dtype="bfloat16", device="cpu"))
    assert base.hidden_states(torch.tensor([PROBE_IDS]), None).last_hidden_state.dtype == torch.bfloat16


def test_inputs_that_round_to_other_8_bits_do_not_forbid_packing(wide_model_folder: Path) -> None:
    """In this model, they change the hidden states by 0.02 standard deviations."""
    check_packing(load_base(wide_model_folder, ModelSettings(dtype="float32", device="cpu", quantize="int8")))
