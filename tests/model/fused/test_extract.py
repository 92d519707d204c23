"""A model's spec is extracted for native code, or its unsupported part named; no wrong spec is served."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from inference.errors import Unavailable
from inference.model.batch import UnsupportedModel
from inference.model.fused import verify
from inference.model.fused.extract import extract_spec
from inference.model.fused.llama_model import LayerSpec, LlamaSpec
from inference.model.fused.verify import context_end_error, extract_verified_spec
from inference.model.paged.kv_pool import AUTO
from inference.model.reference import ordinary_token_ids
from inference.model.remembered_trials import RememberedErrors
from inference.model.runner_selection.requirements import RunnerLimits, RunnerRules
from inference.model.runner_selection.select_runner import select_runner
from tests.model.fused.llamas import tiny_with_packed_weights
from tests.tiny_models.families import CONTEXT, LLAMAS, tiny

PLENTY = 1 << 28


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("name", LLAMAS)
def test_a_llama_like_model_fits_the_fused_runner(name: str, dtype: torch.dtype) -> None:
    selected = select_runner(
        tiny(name).to(dtype),
        RunnerLimits(max_sequences=4, context=CONTEXT, kv_memory_bytes=PLENTY),
        RunnerRules(kinds=("fused",)),
    )
    assert selected.runner_kind == "fused" and selected.runner.capabilities.chunked_prefill
    assert selected.error < (1e-4 if dtype == torch.float32 else 0.2)


def test_the_spec_matches_the_models_config() -> None:
    gemma, granite = (extract_spec(tiny_with_packed_weights(name), CONTEXT) for name in ("gemma2", "granite"))
    assert [block.window for block in gemma.layers] == [6, 0]
    assert (gemma.multipliers.attn_logit_softcap, gemma.multipliers.final_logit_softcap) == (50, 30)
    assert gemma.multipliers.embedding_scale == pytest.approx(32**0.5)
    assert (granite.multipliers.scale, granite.multipliers.residual_scale) == (0.2, 0.3)
    assert granite.multipliers.embedding_scale == pytest.approx(3)
    assert gemma.shape == (32, 4, 2, 8) and gemma.rotary == 8


def test_layers_without_positions_are_recognized() -> None:
    assert [
        block.cos is not None for block in extract_spec(tiny_with_packed_weights("smollm3"), CONTEXT).layers
    ] == [True, False]


def add_hook(model: PreTrainedModel) -> None:
    model.model.layers[1].mlp.register_forward_hook(lambda *call: None)


def add_adapter(model: PreTrainedModel) -> None:
    model.model.layers[1].mlp.adapter = nn.Linear(2, 2)


def add_sinks(model: PreTrainedModel) -> None:
    model.model.layers[0].self_attn.sinks = nn.Parameter(torch.zeros(4))


def use_relu(model: PreTrainedModel) -> None:
    model.model.layers[0].mlp.act_fn = nn.ReLU()


def use_layer_norm(model: PreTrainedModel) -> None:
    model.model.layers[1].input_layernorm = nn.LayerNorm(32)


def use_other_epsilon(model: PreTrainedModel) -> None:
    model.model.layers[1].input_layernorm.variance_epsilon = 1e-3


def remove_gate(model: PreTrainedModel) -> None:
    del model.model.layers[1].mlp.gate_proj


@pytest.mark.parametrize(
    ("change", "reason"),
    (
        (add_hook, "layers.1.mlp has a hook"),
        (add_adapter, "the model has layers.1.mlp.adapter, a Linear, which is not supported"),
        (add_sinks, "the model has layers.0.self_attn, a LlamaAttention, which is not supported"),
        (use_relu, "ReLU is not a supported activation"),
        (use_layer_norm, "LayerNorm of width 32 is not a supported norm"),
        (use_other_epsilon, "its layers differ in epsilon"),
        (remove_gate, "a LlamaMLP has no gate_proj"),
    ),
)
def test_an_unknown_part_is_refused_by_name(change: Callable[[PreTrainedModel], None], reason: str) -> None:
    model = tiny_with_packed_weights("llama")
    change(model)
    with pytest.raises(UnsupportedModel, match=reason):
        extract_spec(model, CONTEXT)


@pytest.mark.parametrize(
    ("name", "reason"),
    (
        ("gpt2", "a GPT2Model has no layers"),
        ("mixtral", "a MixtralSparseMoeBlock has no gate_proj"),
        ("cohere", "CohereLayerNorm of width 32 is not a supported norm"),
        ("olmo2", r"Olmo2RMSNorm has weights of shape \(32,\), not \(8,\)"),
        ("starcoder2", "a Starcoder2MLP has no gate_proj"),
    ),
)
def test_another_family_is_refused_with_its_unsupported_part(name: str, reason: str) -> None:
    with pytest.raises(UnsupportedModel, match=reason):
        extract_spec(tiny_with_packed_weights(name), CONTEXT)


def test_weights_that_are_not_packed_are_refused() -> None:
    with pytest.raises(UnsupportedModel, match="the weight of a Linear is not packed"):
        extract_spec(tiny("llama"), CONTEXT)
    with pytest.raises(UnsupportedModel, match="the model is in float16"):
        extract_spec(tiny("llama").half(), CONTEXT)


def change_first_layer(change: Callable[[LayerSpec], LayerSpec]) -> Callable[[LlamaSpec], LlamaSpec]:
    """A change to the first layer only."""
    return lambda spec: replace(spec, layers=(change(spec.layers[0]), *spec.layers[1:]))


def without_a_norm(block: LayerSpec) -> LayerSpec:
    return replace(block, norms={**block.norms, "before_mlp": block.norms["before_attention"]})


def turned_wrongly(block: LayerSpec) -> LayerSpec:
    assert block.sin is not None
    return replace(block, sin=-block.sin)


def seeing_all(block: LayerSpec) -> LayerSpec:
    return replace(block, window=0)


def swapped_up_and_gate(block: LayerSpec) -> LayerSpec:
    matrices = dict(block.matrices)
    return replace(block, matrices={**matrices, "gate": matrices["up"], "up": matrices["gate"]})


def with_multipliers(**changes: float) -> Callable[[LlamaSpec], LlamaSpec]:
    return lambda spec: replace(spec, multipliers=spec.multipliers._replace(**changes))


WRONG: dict[str, Callable[[LlamaSpec], LlamaSpec]] = {
    "another norm": change_first_layer(without_a_norm),
    "turned the other way": change_first_layer(turned_wrongly),
    "no window": change_first_layer(seeing_all),
    "gate for up": change_first_layer(swapped_up_and_gate),
    "another activation": lambda spec: replace(spec, activation=1 - spec.activation),
    "no cap of the scores": with_multipliers(attn_logit_softcap=0.0),
    "another scale": with_multipliers(scale=0.1),
    "an embedding as it is": with_multipliers(embedding_scale=1.0),
    "half of what a layer adds": with_multipliers(residual_scale=0.5),
    "a layer less": lambda spec: replace(spec, layers=spec.layers[:1]),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_spec_is_not_served(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verification detects each of these errors alone, at float32's tolerance."""
    monkeypatch.setattr(verify, "extract_spec", lambda *args: WRONG[wrong](extract_spec(*args)))
    limits = RunnerLimits(max_sequences=4, context=CONTEXT, kv_memory_bytes=PLENTY)
    with pytest.raises(Unavailable, match="cannot be run by the runner that RUNNER names"):
        select_runner(tiny("gemma2", query_pre_attn_scalar=1), limits, RunnerRules(kinds=("fused",)))


def test_a_vocabulary_smaller_than_the_sample_is_enough_to_verify_a_spec() -> None:
    model = tiny_with_packed_weights("llama", vocab_size=12)
    assert len(ordinary_token_ids(model)) < 16
    assert context_end_error(model, extract_spec(model, CONTEXT), ordinary_token_ids(model), CONTEXT) < 1e-4


def test_an_error_far_from_the_start_is_detected() -> None:
    """Ministral 3 scales queries with the position, beyond the positions that a trial computes."""
    model = tiny_with_packed_weights("ministral3")
    ids = ordinary_token_ids(model)
    assert context_end_error(model, extract_spec(model, CONTEXT), ids, 16) < 1e-4
    assert context_end_error(model, extract_spec(model, CONTEXT), ids, CONTEXT) > 1e-2
    with pytest.raises(UnsupportedModel, match="at the end of the context"):
        extract_verified_spec(model, CONTEXT, 1e-3, AUTO, RememberedErrors())
