"""Models whose weights native matrices hold: proved, undone, quantised, and what is told of it."""

import logging

import pytest
import torch
from transformers import PreTrainedModel

from inference.errors import Unavailable
from inference.model.fit import choose
from inference.model.trial import Trial
from inference.model.weights import hold
from inference.model.weights.kinds import INT4, INT8
from inference.model.weights.weight import NativeStack, NativeWeight
from inference.native.library import SETTING, library
from tests.families import CONTEXT, tiny

EXACT, PLENTY = 1e-3, 1 << 24
WIDE = {"hidden_size": 64, "intermediate_size": 128}
EXPERTS = ["mixtral", "gpt_oss", "deepseek_v3", "qwen3_next"]
SHAPES = {"gpt2": {"n_embd": 64}, "bloom": {"hidden_size": 64}, "t5": {"d_model": 64, "d_ff": 128}}


def wide(name: str) -> PreTrainedModel:
    """A model whose layers are large enough to be quantised."""
    return tiny(name, **SHAPES.get(name, WIDE))


def native(model: PreTrainedModel) -> list[NativeWeight]:
    return [weight for weight in model.parameters() if isinstance(weight, NativeWeight)]


def logits(model: PreTrainedModel) -> torch.Tensor:
    return torch.cat(Trial(model).truths)


@pytest.mark.parametrize("name", ["gpt2", "gpt_neox", "bloom", "phi", "t5", "mixtral"])
def test_a_model_is_held_exactly(name: str) -> None:
    model = wide(name)
    trial = Trial(model)
    assert hold.hold(model, trial, EXACT, asked=True)
    assert len(native(model)) > 4
    assert trial.difference(logits(model), torch.cat(trial.truths)) < 1e-4


@pytest.mark.parametrize("name", ["gpt_neox", "mixtral"])
def test_half_precision_is_held_within_its_noise(name: str) -> None:
    model = wide(name).to(torch.bfloat16)
    trial = Trial(model)
    assert hold.hold(model, trial, 0.1, asked=True)
    assert trial.difference(logits(model), torch.cat(trial.truths)) < 0.1


def test_what_is_wrong_is_undone(caplog: pytest.LogCaptureFixture) -> None:
    model = wide("phi")
    trial, before = Trial(model), logits(model)
    trial.truths = [truth + 1 for truth in trial.truths]
    with caplog.at_level(logging.INFO):
        assert not hold.hold(model, trial, EXACT, asked=True)
    assert "phi: not in native products: error" in caplog.text
    assert not native(model) and torch.allclose(logits(model), before, atol=1e-5)


def test_weights_that_are_used_otherwise_are_tensors_again() -> None:
    """Jamba multiplies by a part of its weights in its own way."""
    model = tiny("jamba")
    assert hold.hold(model, Trial(model), EXACT, asked=True)
    mixer = model.model.layers[0].mamba
    assert not isinstance(mixer.dt_proj.weight, NativeWeight)
    assert isinstance(mixer.in_proj.weight, NativeWeight)
    before = [weight.unpacked for weight in native(model)]
    logits(model)
    assert [weight.unpacked for weight in native(model)] == before


def test_a_small_model_is_left_alone_unless_it_is_asked_for() -> None:
    model = wide("phi")
    assert not hold.hold(model, Trial(model), EXACT)
    assert not native(model)


@pytest.mark.parametrize("pays", [True, False])
def test_who_nobody_asks_for_is_held_where_it_pays(pays: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hold, "LEAST", 0)
    monkeypatch.setattr(hold, "pays", lambda *asked: pays)
    model = wide("phi")
    assert hold.hold(model, Trial(model), EXACT) is pays
    assert bool(native(model)) is pays


@pytest.mark.parametrize("name", ["gpt2", "gpt_neox", "bloom", "phi", "t5", "mixtral"])
@pytest.mark.parametrize("kind", [INT8, INT4])
def test_a_quantised_model_is_served_and_says_what_it_lost(name: str, kind: str) -> None:
    model = wide(name)
    size = sum(weight.nbytes for weight in model.parameters() if weight.dim() == 2)
    fitted = choose(model, max_rows=4, context=CONTEXT, kv_bytes=PLENTY, quantise=kind, timed=False)
    assert fitted.loss is not None and fitted.loss.tokens >= 64
    assert fitted.error < 0.1
    assert 0 < fitted.loss.typical < (0.1 if kind == INT8 else 1.0)
    plain = [w for w in model.parameters() if w.dim() == 2 and not isinstance(w, NativeWeight)]
    assert sum(weight.nbytes for weight in plain) < size / 4


def test_without_kernels_torch_multiplies_and_nothing_is_quantised(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    library.cache_clear()
    monkeypatch.setenv(SETTING, "off")
    try:
        with caplog.at_level(logging.INFO):
            model = wide("phi")
            assert not hold.hold(model, Trial(model), EXACT, asked=True)
            assert "phi: torch's own products: " in caplog.text
            with pytest.raises(Unavailable, match="set QUANTISE=none"):
                hold.quantise(model, Trial(model), INT8)
    finally:
        library.cache_clear()


@pytest.mark.parametrize("name", EXPERTS)
def test_experts_are_held_exactly_and_taken_one_by_one(name: str) -> None:
    model = tiny(name, hidden_size=64, num_key_value_heads=4)
    trial = Trial(model)
    assert hold.hold(model, trial, EXACT, asked=True)
    stacks = [weight for weight in model.parameters() if isinstance(weight, NativeStack)]
    before = [stack.unpacked for stack in stacks]
    assert trial.difference(logits(model), torch.cat(trial.truths)) < 1e-4
    assert stacks and [stack.unpacked for stack in stacks] == before


@pytest.mark.parametrize("name", EXPERTS)
def test_experts_are_quantised_and_taken_one_by_one(name: str) -> None:
    model = tiny(name, hidden_size=64, num_key_value_heads=4)
    fitted = choose(model, max_rows=4, context=CONTEXT, kv_bytes=PLENTY, quantise=INT8, timed=False)
    stacks = [weight for weight in model.parameters() if isinstance(weight, NativeStack)]
    before = [stack.unpacked for stack in stacks]
    logits(model)
    assert stacks and [stack.unpacked for stack in stacks] == before
    assert fitted.loss is not None and fitted.loss.typical < 0.3  # another expert is now and then chosen
