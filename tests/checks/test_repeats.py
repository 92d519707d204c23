"""Layers that are alike compute once: what is told then is what is told when each of them computes."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from checks.measure.blind import Blind
from checks.measure.kept import packed, slots
from checks.measure.repeats import Account, computing, repeating
from checks.measure.skeleton import skeleton
from checks.measure.step import Tally, taken, work
from inference.model.unfit import Unfit
from tests.families import BART, GPT2, LLAMA, T5, UNGROUPED

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
# The ways in which a model's layers differ: a config.json, and how many of its layers need not compute.
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
    model = skeleton({"model_type": kind, "vocab_size": 97, **MODELS[kind][0]})
    assert model is not None
    return model.to(torch.bfloat16)


@pytest.mark.parametrize("kind", MODELS)
def test_a_step_takes_what_it_takes_with_every_layer_computed(kind: str) -> None:
    told = taken(built(kind), repeating)
    assert told == taken(built(kind), computing) == work(built(kind)) > 0


@pytest.mark.parametrize("kind", MODELS)
def test_a_sequence_keeps_what_it_keeps_with_every_layer_computed(kind: str) -> None:
    for seat in (packed, partial(slots, resumes=True), partial(slots, resumes=False)):
        try:
            with Blind():
                whole = seat(built(kind), way=computing)
        except Unfit:
            continue
        with Blind():
            assert seat(built(kind), way=repeating) == whole != (0, 0)


@pytest.mark.parametrize("kind", MODELS)
def test_layers_that_are_alike_compute_once(kind: str) -> None:
    seen: list[int] = []

    @contextmanager
    def counted(model: Any, account: Account) -> Iterator[None]:
        with repeating(model, account) as repeats:
            yield
        seen.append(repeats.count)

    taken(built(kind), counted)
    assert seen == [MODELS[kind][1]]


class Layer(nn.Module):
    """Doubles what it is given; `aside` is where it keeps a copy, `width` what it works with meanwhile."""

    def __init__(self, width: int, aside: list[Tensor] | None = None) -> None:
        super().__init__()
        self.width, self.aside = width, aside

    def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
        torch.empty(self.width, device="meta")
        if self.aside is not None:
            self.aside.append(states.clone())
        return states * 2, states


class Model(nn.Module):
    """Layers one behind the other, as transformers' models have them."""

    def __init__(self, layers: list[Layer]) -> None:
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


def most(model: Model, way: Any) -> tuple[int, Any]:
    """Bytes that it takes, and what stood before its layers."""
    with torch.no_grad(), Tally(0) as tally, way(model, tally) as repeats:
        states = torch.zeros(4, device="meta")
        assert model(states).shape == states.shape
    return tally.most, repeats


def test_what_a_layer_works_with_counts_at_its_like_too() -> None:
    """The second layer has the first one's result beside what it works with."""
    model = Model([Layer(100), Layer(100), Layer(100)])
    told, repeats = most(model, repeating)
    assert (told, repeats.count) == (most(model, computing)[0], 2)
    assert all("forward" not in vars(layer) for layer in model.layers)


def test_layers_of_other_settings_are_not_alike() -> None:
    model = Model([Layer(10), Layer(1000), Layer(10)])
    told, repeats = most(model, repeating)
    assert (told, repeats.count) == (most(model, computing)[0], 1)


def test_a_layer_that_keeps_something_aside_computes() -> None:
    kept: list[Tensor] = []
    told, repeats = most(Model([Layer(10, kept) for _ in range(3)]), repeating)
    assert (repeats.count, len(kept)) == (0, 3)
    kept.clear()
    assert told == most(Model([Layer(10, kept) for _ in range(3)]), computing)[0]
