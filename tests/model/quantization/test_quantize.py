"""Models with packed weights: verified, undone, quantized; and what is reported."""

import logging

import pytest
import torch
from transformers import PreTrainedModel

from inference.errors import Unavailable
from inference.model.quantization import quantize, replace
from inference.model.quantization.packed_tensor import PackedExperts, PackedWeight
from inference.model.quantization.replace import matrices_of
from inference.model.quantization.schemes import (
    DEVICE_SCHEMES,
    INT4,
    INT8,
    Q4_K_M,
    Q8_0,
    Quantization,
    bytes_saved,
)
from inference.model.reference import COLUMNS, Reference
from inference.model.runner_selection.requirements import RunnerLimits, RunnerRules
from inference.model.runner_selection.select_runner import select_runner
from inference.native.library import OFF
from tests.native.native_setting import native_setting
from tests.tiny_models.families import CONTEXT, tiny

EXACT, PLENTY = 1e-3, 1 << 24
WIDE = {"hidden_size": 64, "intermediate_size": 128}
EXPERTS = ["mixtral", "gpt_oss", "deepseek_v3", "qwen3_next", "llama4_text"]
SHAPES = {"gpt2": {"n_embd": 64}, "bloom": {"hidden_size": 64}, "t5": {"d_model": 64, "d_ff": 128}}


def wide(name: str) -> PreTrainedModel:
    """A model whose layers are large enough to be quantized."""
    return tiny(name, **SHAPES.get(name, WIDE))


def native(model: PreTrainedModel) -> list[PackedWeight]:
    return [weight for weight in model.parameters() if isinstance(weight, PackedWeight)]


def logits(model: PreTrainedModel) -> torch.Tensor:
    return torch.cat(Reference(model).logits)


@pytest.mark.parametrize("name", ["gpt2", "gpt_neox", "bloom", "phi", "t5", "mixtral"])
def test_packing_keeps_the_logits(name: str) -> None:
    model = wide(name)
    reference = Reference(model)
    assert quantize.use_packed_weights(model, reference, EXACT, required=True)
    assert len(native(model)) > 4
    assert reference.difference(logits(model), torch.cat(reference.logits)) < 1e-4


@pytest.mark.parametrize("name", ["gpt_neox", "mixtral"])
def test_packing_half_precision_stays_within_its_noise(name: str) -> None:
    model = wide(name).to(torch.bfloat16)
    reference = Reference(model)
    assert quantize.use_packed_weights(model, reference, 0.1, required=True)
    assert reference.difference(logits(model), torch.cat(reference.logits)) < 0.1


def test_packing_that_changes_the_logits_is_undone(caplog: pytest.LogCaptureFixture) -> None:
    model = wide("phi")
    reference, before = Reference(model), logits(model)
    reference.logits = [expected + 1 for expected in reference.logits]
    with caplog.at_level(logging.INFO):
        assert not quantize.use_packed_weights(model, reference, EXACT, required=True)
    assert "phi: weights not packed: error" in caplog.text
    assert not native(model) and torch.allclose(logits(model), before, atol=1e-5)


def test_weights_that_need_unpacking_are_tensors_again() -> None:
    """Jamba multiplies by some of its weights outside of their modules."""
    model = tiny("jamba")
    assert quantize.use_packed_weights(model, Reference(model), EXACT, required=True)
    mixer = model.model.layers[0].mamba
    assert not isinstance(mixer.dt_proj.weight, PackedWeight)
    assert isinstance(mixer.in_proj.weight, PackedWeight)
    before = [weight.num_unpacked for weight in native(model)]
    logits(model)
    assert [weight.num_unpacked for weight in native(model)] == before


def test_the_new_reference_is_of_the_weights_that_stay() -> None:
    """A weight that is used beyond a matmul is a tensor again, and its activations are not rounded."""
    model = wide("phi")
    layer = model.model.layers[0].mlp.fc1
    hook = layer.register_forward_hook(lambda module, *call: module.weight.sum() and None)
    reference, _ = quantize.quantize_weights(model, Reference(model), Quantization(INT8))
    hook.remove()
    assert native(model) and not isinstance(layer.weight, PackedWeight)
    assert reference.recompute_error(0, COLUMNS) == 0


def test_a_small_model_is_left_alone_unless_it_is_requested() -> None:
    model = wide("phi")
    assert not quantize.use_packed_weights(model, Reference(model), EXACT)
    assert not native(model)


@pytest.mark.parametrize("is_faster", [True, False])
def test_an_unrequested_model_is_packed_where_it_is_faster(
    is_faster: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantize, "MIN_BYTES", 0)
    monkeypatch.setattr(quantize, "packing_is_faster", lambda *args: is_faster)
    model = wide("phi")
    assert quantize.use_packed_weights(model, Reference(model), EXACT) is is_faster
    assert bool(native(model)) is is_faster


@pytest.mark.parametrize("name", ["gpt2", "gpt_neox", "bloom", "phi", "t5", "mixtral"])
@pytest.mark.parametrize("kind", [INT8, INT4, Q8_0, Q4_K_M])
def test_a_quantized_model_is_served_and_reports_its_error(name: str, kind: str) -> None:
    model = wide(name)
    size = sum(weight.nbytes for weight in model.parameters() if weight.dim() == 2)
    selected = select_runner(
        model,
        RunnerLimits(max_sequences=4, context=CONTEXT, kv_memory_bytes=PLENTY),
        RunnerRules(timed=False),
        Quantization(kind),
    )
    assert selected.quant_error is not None and selected.quant_error.tokens >= 64
    assert selected.error < 0.1
    assert 0 < selected.quant_error.rms < (0.1 if kind in (INT8, Q8_0) else 1.0)
    plain = [w for w in model.parameters() if w.dim() == 2 and not isinstance(w, PackedWeight)]
    assert sum(weight.nbytes for weight in plain) < size / 4


def test_without_kernels_torch_multiplies_and_nothing_is_quantized(caplog: pytest.LogCaptureFixture) -> None:
    with native_setting(OFF), caplog.at_level(logging.INFO):
        model = wide("phi")
        assert not quantize.use_packed_weights(model, Reference(model), EXACT, required=True)
        assert "phi: matmuls stay in torch: " in caplog.text
        with pytest.raises(Unavailable, match="set QUANTIZE=none"):
            quantize.quantize_weights(model, Reference(model), Quantization(INT8))


@pytest.mark.parametrize("name", EXPERTS)
def test_experts_are_packed_exactly_and_used_one_by_one(name: str) -> None:
    model = tiny(name, hidden_size=64, num_key_value_heads=4)
    reference = Reference(model)
    assert quantize.use_packed_weights(model, reference, EXACT, required=True)
    stacks = [weight for weight in model.parameters() if isinstance(weight, PackedExperts)]
    before = [stack.num_unpacked for stack in stacks]
    assert reference.difference(logits(model), torch.cat(reference.logits)) < 1e-4
    assert stacks and [stack.num_unpacked for stack in stacks] == before


@pytest.mark.parametrize("kind", DEVICE_SCHEMES["cpu"])
def test_packing_takes_the_memory_that_was_counted(kind: str) -> None:
    model = wide("phi").bfloat16()
    before = sum(weight.nbytes for weight in model.parameters())
    with torch.device("meta"):
        saved = bytes_saved(type(model)(model.config), 2, "cpu")[kind]
    swaps = quantize.pack_on(model, kind, "cpu")
    matrices = sum(matrix.nbytes for each in swaps for matrix in matrices_of(each.weight))
    plain = sum(weight.nbytes for weight in model.parameters() if not isinstance(weight, PackedWeight))
    assert matrices + plain == before - saved


def test_a_scheme_without_kernels_on_a_gpu_is_refused() -> None:
    model = wide("phi")
    with pytest.raises(Unavailable, match="set QUANTIZE=int4 or DEVICE=cpu"):
        quantize.quantize_weights(model, Reference(model), Quantization(Q4_K_M, "cuda"))


def test_packing_that_takes_long_logs_its_progress(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(replace, "PROGRESS_S", 0)
    with caplog.at_level(logging.INFO):
        quantize.pack_on(wide("phi"), INT8, "cpu")
    assert "phi: 0.0 billion weights packed" in caplog.text


@pytest.mark.parametrize("name", EXPERTS)
def test_experts_are_quantized_and_used_one_by_one(name: str) -> None:
    model = tiny(name, hidden_size=64, num_key_value_heads=4)
    selected = select_runner(
        model,
        RunnerLimits(max_sequences=4, context=CONTEXT, kv_memory_bytes=PLENTY),
        RunnerRules(timed=False),
        Quantization(INT8),
    )
    stacks = [weight for weight in model.parameters() if isinstance(weight, PackedExperts)]
    before = [stack.num_unpacked for stack in stacks]
    logits(model)
    assert stacks and [stack.num_unpacked for stack in stacks] == before
    # Sometimes another expert is chosen.
    assert selected.quant_error is not None and selected.quant_error.rms < 0.3
