"""Equal layers compute once: the result is that of computing all of them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from checks.memory.activations import PeakMemory, activation_bytes_per_token, measure_activations
from checks.memory.kv_cost import cost_of_contiguous, cost_of_paged
from checks.memory.meta_mode import MetaMode
from checks.memory.repeated_layers import LayerAccounting, compute_all_layers, dedup_layers
from inference.model.batch import UnsupportedModel
from inference.model.load.meta_model import try_build_on_meta
from tests.tiny_models.families import BART, GPT2, LLAMA, T5, UNGROUPED

DEEP = LLAMA | {"num_hidden_layers": 6}
PLAIN = UNGROUPED | {"num_hidden_layers": 6}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
LATENTS = {
    "kv_lora_rank": 8,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
}
DEEPSEEK = {"n_routed_experts": 8, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 2}
WINDOWS = DEEP | {
    "head_dim": 8,
    "sliding_window": 6,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
}
SHARING = {
    "num_hidden_layers": 12,
    "layer_types": WINDOWS["layer_types"] * 2,
    "intermediate_size": [64] * 12,
    "activation_sparsity_pattern": [0.9] * 3 + [0.0] * 9,
    "num_kv_shared_layers": 6,
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": 97,
}
LINEAR = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
STATES = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_chunk_size": 8}
JAMBA = {"attn_layer_period": 4, "attn_layer_offset": 1, "num_experts": 4, "use_mamba_kernels": False}
ALTERNATING = {"layer_types": ["linear_attention", "linear_attention", "full_attention"] * 2}
# Models whose layers differ in various ways: a config.json, and how many layers can be skipped.
MODELS: dict[str, tuple[dict[str, Any], int]] = {
    "llama": (DEEP, 5),
    "gpt2": (GPT2 | {"n_layer": 6}, 5),
    "gpt_neox": (PLAIN, 5),
    "bloom": ({"hidden_size": 32, "n_layer": 6, "n_head": 4}, 5),
    "gemma3_text": (WINDOWS, 4),
    "gpt_oss": (WINDOWS | {"num_local_experts": 4}, 4),
    "gemma3n_text": (WINDOWS | SHARING, 4),
    "smollm3": (DEEP | {"no_rope_layers": [1, 1, 0] * 2, "pad_token_id": 0}, 4),
    "qwen3_moe": (DEEP | EXPERTS | {"head_dim": 8, "mlp_only_layers": [0, 3]}, 4),
    "deepseek_v3": (PLAIN | LATENTS | DEEPSEEK | {"moe_intermediate_size": 16}, 4),
    "qwen3_next": (DEEP | EXPERTS | LINEAR | ALTERNATING | {"head_dim": 8}, 4),
    "jamba": (DEEP | JAMBA, 3),
    "granitemoehybrid": (PLAIN | STATES | ALTERNATING | {"num_local_experts": 4}, 4),
    "lfm2": (DEEP | {"layer_types": ["conv", "conv", "full_attention"] * 2}, 4),
    "mamba": ({"hidden_size": 32, "num_hidden_layers": 6, "state_size": 8}, 4),
    "t5": (T5 | {"num_layers": 6}, 8),
    "bart": (BART | {"encoder_layers": 6, "decoder_layers": 6}, 10),
}


def built(kind: str) -> Any:
    model = try_build_on_meta({"model_type": kind, "vocab_size": 97, **MODELS[kind][0]})
    assert model is not None
    return model.to(torch.bfloat16)


@pytest.mark.parametrize("kind", MODELS)
def test_a_step_takes_the_same_memory_as_with_every_layer_computed(kind: str) -> None:
    num_bytes = activation_bytes_per_token(built(kind), dedup_layers)
    assert (
        num_bytes
        == activation_bytes_per_token(built(kind), compute_all_layers)
        == measure_activations(built(kind))
        > 0
    )


@pytest.mark.parametrize("kind", MODELS)
def test_a_sequence_takes_the_same_memory_as_with_every_layer_computed(kind: str) -> None:
    for measure_runner in (
        partial(cost_of_paged, kv_dtype="auto"),
        partial(cost_of_contiguous, chunked_prefill=True),
        partial(cost_of_contiguous, chunked_prefill=False),
    ):
        try:
            with MetaMode():
                expected = measure_runner(built(kind), layer_mode=compute_all_layers)
        except UnsupportedModel:
            continue
        with MetaMode():
            assert measure_runner(built(kind), layer_mode=dedup_layers) == expected != (0, 0)


@pytest.mark.parametrize("kind", MODELS)
def test_equal_layers_compute_once(kind: str) -> None:
    counts: list[int] = []

    @contextmanager
    def dedup_and_count(model: Any, account: LayerAccounting) -> Iterator[None]:
        with dedup_layers(model, account) as repeats:
            yield
        counts.append(repeats.num_skipped)

    activation_bytes_per_token(built(kind), dedup_and_count)
    assert counts == [MODELS[kind][1]]


class DoublingLayer(nn.Module):
    """Doubles its input, with a temporary tensor of `width` numbers; appends a copy of the input to `copies`,
    if any.
    """

    def __init__(self, width: int, copies: list[Tensor] | None = None) -> None:
        super().__init__()
        self.width, self.copies = width, copies

    def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
        torch.empty(self.width, device="meta")
        if self.copies is not None:
            self.copies.append(states.clone())
        return states * 2, states


class LayerStack(nn.Module):
    """Layers applied one after another, as in transformers' models."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.config = SimpleNamespace(is_encoder_decoder=False)

    def get_decoder(self) -> nn.Module:
        return self

    def forward(self, states: Tensor) -> Tensor:
        for layer in self.layers:
            states, before = layer(states)
            assert before.shape == states.shape
        return states


def measure_peak(model: LayerStack, mode: Any) -> tuple[int, Any]:
    """Peak bytes, and the object that `mode` yields."""
    with torch.no_grad(), PeakMemory(0) as tally, mode(model, tally) as repeats:
        states = torch.zeros(4, device="meta")
        assert model(states).shape == states.shape
    return tally.peak_bytes, repeats


def test_the_temporary_memory_of_a_skipped_layer_counts_too() -> None:
    """The second layer holds the first one's result while it works."""
    model = LayerStack([DoublingLayer(100), DoublingLayer(100), DoublingLayer(100)])
    num_bytes, repeats = measure_peak(model, dedup_layers)
    assert (num_bytes, repeats.num_skipped) == (measure_peak(model, compute_all_layers)[0], 2)
    assert all("forward" not in vars(layer) for layer in model.layers)


def test_layers_with_other_settings_are_not_equal() -> None:
    model = LayerStack([DoublingLayer(10), DoublingLayer(1000), DoublingLayer(10)])
    num_bytes, repeats = measure_peak(model, dedup_layers)
    assert (num_bytes, repeats.num_skipped) == (measure_peak(model, compute_all_layers)[0], 1)


def test_a_layer_with_side_effects_is_computed() -> None:
    copies: list[Tensor] = []
    num_bytes, repeats = measure_peak(LayerStack([DoublingLayer(10, copies) for _ in range(3)]), dedup_layers)
    assert (repeats.num_skipped, len(copies)) == (0, 3)
    copies.clear()
    assert (
        num_bytes
        == measure_peak(LayerStack([DoublingLayer(10, copies) for _ in range(3)]), compute_all_layers)[0]
    )


def test_a_layer_that_is_computed_several_times_is_not_replayed() -> None:
    layer = DoublingLayer(10)
    _, repeats = measure_peak(LayerStack([layer, layer, DoublingLayer(10)]), dedup_layers)
    assert repeats.num_skipped == 1


class ViewingLayer(nn.Module):
    """Returns its input, and a view of it in another dtype that has half as many elements."""

    def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
        return states * 2, states.view(torch.complex64)


def test_a_view_of_an_input_in_another_dtype_keeps_its_dtype() -> None:
    model = LayerStack([ViewingLayer(), ViewingLayer()])
    with torch.no_grad(), PeakMemory(0) as tally, dedup_layers(model, tally):
        for layer in model.layers:
            _, view = layer(torch.zeros(4, 2, device="meta"))
            assert (view.dtype, view.shape) == (torch.complex64, (4, 1))
