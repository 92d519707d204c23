"""A model is read as native code needs it, or refused by name; what is read wrongly is not served."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from inference.errors import Unavailable
from inference.model import fit, seats
from inference.model.fused.far import far_error
from inference.model.fused.reader import read
from inference.model.fused.reading import Block, Reading
from inference.model.trial import ordinary_ids
from inference.model.unfit import Unfit
from tests.families import CONTEXT, LLAMAS, tiny
from tests.model.fused.llamas import held

PLENTY = 1 << 28


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("name", LLAMAS)
def test_a_llama_like_model_is_fit_for_the_fused_seat(name: str, dtype: torch.dtype) -> None:
    fitted = fit.choose(tiny(name).to(dtype), max_rows=4, context=CONTEXT, kv_bytes=PLENTY, kinds=("fused",))
    assert fitted.seat == "fused" and fitted.resumes
    assert fitted.error < (1e-4 if dtype == torch.float32 else 0.2)


def test_what_is_read_is_what_the_model_was_made_with() -> None:
    gemma, granite = (read(held(name), CONTEXT) for name in ("gemma2", "granite"))
    assert [block.window for block in gemma.blocks] == [6, 0]
    assert (gemma.scales.score_cap, gemma.scales.logit_cap) == (50, 30)
    assert gemma.scales.embedding_scale == pytest.approx(32**0.5)
    assert (granite.scales.scale, granite.scales.residual_scale) == (0.2, 0.3)
    assert granite.scales.embedding_scale == pytest.approx(3)
    assert gemma.shape == (32, 4, 2, 8) and gemma.rotary == 8


def test_layers_without_positions_are_told_apart() -> None:
    assert [block.cos is not None for block in read(held("smollm3"), CONTEXT).blocks] == [True, False]


def hooked(model: PreTrainedModel) -> None:
    model.model.layers[1].mlp.register_forward_hook(lambda *call: None)


def adapted(model: PreTrainedModel) -> None:
    model.model.layers[1].mlp.adapter = nn.Linear(2, 2)


def sunk(model: PreTrainedModel) -> None:
    model.model.layers[0].self_attn.sinks = nn.Parameter(torch.zeros(4))


def relu(model: PreTrainedModel) -> None:
    model.model.layers[0].mlp.act_fn = nn.ReLU()


def centred(model: PreTrainedModel) -> None:
    model.model.layers[1].input_layernorm = nn.LayerNorm(32)


def uneven(model: PreTrainedModel) -> None:
    model.model.layers[1].input_layernorm.variance_epsilon = 1e-3


def ungated(model: PreTrainedModel) -> None:
    del model.model.layers[1].mlp.gate_proj


@pytest.mark.parametrize(
    ("change", "reason"),
    (
        (hooked, "layers.1.mlp has a hook"),
        (adapted, "has layers.1.mlp.adapter, a Linear, which is not known here"),
        (sunk, "has layers.0.self_attn, a LlamaAttention, which is not known here"),
        (relu, "ReLU is no activation that is known here"),
        (centred, "LayerNorm of width 32 is no norm that is known here"),
        (uneven, "its layers have not the same epsilon"),
        (ungated, "a LlamaMLP has no gate_proj"),
    ),
)
def test_what_is_not_known_is_refused_by_name(change: Callable[[PreTrainedModel], None], reason: str) -> None:
    model = held("llama")
    change(model)
    with pytest.raises(Unfit, match=reason):
        read(model, CONTEXT)


@pytest.mark.parametrize(
    ("name", "reason"),
    (
        ("gpt2", "a GPT2Model has no layers"),
        ("mixtral", "a MixtralSparseMoeBlock has no gate_proj"),
        ("cohere", "CohereLayerNorm of width 32 is no norm that is known here"),
        ("olmo2", r"Olmo2RMSNorm is of shape \(32,\), not \(8,\)"),
        ("starcoder2", "a Starcoder2MLP has no gate_proj"),
    ),
)
def test_another_family_is_refused_with_what_is_other_in_it(name: str, reason: str) -> None:
    with pytest.raises(Unfit, match=reason):
        read(held(name), CONTEXT)


def test_weights_that_are_not_packed_are_refused() -> None:
    with pytest.raises(Unfit, match="the weight of a Linear is not packed"):
        read(tiny("llama"), CONTEXT)
    with pytest.raises(Unfit, match="is in float16"):
        read(tiny("llama").half(), CONTEXT)


def first(change: Callable[[Block], Block]) -> Callable[[Reading], Reading]:
    """A change of the first layer alone."""
    return lambda reading: replace(reading, blocks=(change(reading.blocks[0]), *reading.blocks[1:]))


def without_a_norm(block: Block) -> Block:
    return replace(block, norms={**block.norms, "before_mlp": block.norms["before_attention"]})


def turned_wrongly(block: Block) -> Block:
    assert block.sin is not None
    return replace(block, sin=-block.sin)


def seeing_all(block: Block) -> Block:
    return replace(block, window=0)


def swapped_up_and_gate(block: Block) -> Block:
    matrices = dict(block.matrices)
    return replace(block, matrices={**matrices, "gate": matrices["up"], "up": matrices["gate"]})


def scaled(**changes: float) -> Callable[[Reading], Reading]:
    return lambda reading: replace(reading, scales=reading.scales._replace(**changes))


WRONG: dict[str, Callable[[Reading], Reading]] = {
    "another norm": first(without_a_norm),
    "turned the other way": first(turned_wrongly),
    "no window": first(seeing_all),
    "gate for up": first(swapped_up_and_gate),
    "another activation": lambda reading: replace(reading, activation=1 - reading.activation),
    "no cap of the scores": scaled(score_cap=0.0),
    "another scale": scaled(scale=0.1),
    "an embedding as it is": scaled(embedding_scale=1.0),
    "half of what a layer adds": scaled(residual_scale=0.5),
    "a layer less": lambda reading: replace(reading, blocks=reading.blocks[:1]),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_reading_is_not_served(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them alone is seen by the proof, at float32's tolerance."""
    monkeypatch.setattr(seats, "read", lambda *asked: WRONG[wrong](read(*asked)))
    asked: Any = {"max_rows": 4, "context": CONTEXT, "kv_bytes": PLENTY}
    with pytest.raises(Unavailable, match="computed wrongly in the SEAT asked for"):
        fit.choose(tiny("gemma2", query_pre_attn_scalar=1), **asked, kinds=("fused",))


def test_what_changes_far_from_the_start_is_seen() -> None:
    """Queries of Ministral 3 grow with the position, beyond those that a trial computes."""
    model = held("ministral3")
    ids = ordinary_ids(model)
    assert far_error(model, read(model, CONTEXT), ids, 16) < 1e-4
    assert far_error(model, read(model, CONTEXT), ids, CONTEXT) > 1e-2
    with pytest.raises(Unfit, match="at the end of the context"):
        seats.proved(model, CONTEXT, 1e-3)
