"""Projections merged into one matmul: the same answers and weights, each projection still correct alone."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from inference.model.merge_projections import (
    MergedLinear,
    ProjectionGroup,
    merge_and_verify,
    merge_projections,
)
from inference.model.reference import Reference
from tests.tiny_models.families import tiny

FUSED = {"llama": 4, "phi": 2, "mixtral": 2, "gemma3_text": 4, "deepseek_v3": 4}
IDS = torch.tensor([[5, 9, 13, 40, 41, 42, 43]])
EXACT = 1e-3


@pytest.fixture(params=FUSED)
def model(request: pytest.FixtureRequest) -> Iterator[PreTrainedModel]:
    yield tiny(request.param)


@torch.inference_mode()
def logits(model: PreTrainedModel) -> torch.Tensor:
    return model(input_ids=IDS, use_cache=False).logits


def bytes_of(model: PreTrainedModel) -> int:
    """Bytes of all storages that the weights use."""
    storages = {
        weight.untyped_storage().data_ptr(): weight.untyped_storage() for weight in model.parameters()
    }
    return sum(storage.nbytes() for storage in storages.values())


def test_a_merged_model_answers_as_before_with_the_same_bytes(model: PreTrainedModel) -> None:
    before, size, names = logits(model), bytes_of(model), list(model.state_dict())
    weights = [weight.clone() for weight in model.state_dict().values()]
    groups = merge_and_verify(model, Reference(model), EXACT, "cpu")
    assert len(groups) == FUSED[model.config.model_type]
    assert (logits(model) - before).abs().max() < 1e-4
    assert bytes_of(model) == size
    assert list(model.state_dict()) == names
    assert all(map(torch.equal, weights, model.state_dict().values()))
    assert not any(group.wasted for group in groups)


def test_unmerged_layers_compute_for_themselves() -> None:
    model = tiny("phi")
    before, groups = logits(model), merge_projections(model, "cpu")
    for group in groups:
        group.unmerge()
        group.weight = torch.full_like(group.weight, float("nan"))
    assert torch.allclose(logits(model), before, atol=1e-5)


def three_layers(*biased: int) -> tuple[list[nn.Linear], list[nn.Linear]]:
    """Three merged layers, and unmerged copies of them."""
    torch.manual_seed(2)
    members = [nn.Linear(6, 4 + place, bias=place in biased) for place in range(3)]
    alone = [nn.Linear(6, 4 + place, bias=place in biased) for place in range(3)]
    for own, other in zip(members, alone, strict=True):
        other.load_state_dict(own.state_dict())
    ProjectionGroup(members).merge()
    return members, alone


@torch.inference_mode()
@pytest.mark.parametrize("order", [(0,), (2,), (2, 1, 0), (0, 0, 1, 0, 2), (1, 1, 1)])
def test_a_member_is_correct_alone_and_in_any_order(order: tuple[int, ...]) -> None:
    members, alone = three_layers(0, 2)
    x, other = torch.randn(2, 3, 6)
    for place in order:
        for input in (x, x, other):
            assert torch.allclose(members[place](input), alone[place](input), atol=1e-6)


@torch.inference_mode()
def test_cached_outputs_are_used_only_for_the_same_input_tensor() -> None:
    members, alone = three_layers()
    for _ in range(20):  # the id and the memory of a freed tensor go to the next one
        x = torch.randn(3, 6)
        members[0](x)
        del x
        x = torch.randn(3, 6)
        assert torch.allclose(members[1](x), alone[1](x), atol=1e-6)


@torch.inference_mode()
def test_cached_outputs_do_not_outlive_their_input() -> None:
    members, _ = three_layers()
    group = members[0].group
    x = torch.randn(3, 6)
    members[0](x)
    assert len(group._outputs) == 2
    del x
    assert not group._outputs
    assert group.wasted == 2


def test_hooked_tied_or_fused_layers_are_not_merged() -> None:
    hooked, tied, fused = tiny("llama"), tiny("llama"), tiny("gpt_neox")
    attention = hooked.model.layers[0].self_attn
    attention.q_proj.register_forward_pre_hook(lambda module, args: None)
    attention.k_proj.forward = attention.k_proj.forward
    first, second = (layer.mlp for layer in tied.model.layers)
    first.gate_proj.weight = second.gate_proj.weight
    assert len(merge_projections(hooked, "cpu")) == 3
    assert len(merge_projections(tied, "cpu")) == 2
    assert not merge_projections(fused, "cpu")


def test_a_group_whose_outputs_are_unused_is_undone() -> None:
    model = tiny("bart")  # cross-attention: its query reads another input than its keys
    groups = merge_and_verify(model, Reference(model), EXACT, "cpu")
    crossed = [layer.encoder_attn for layer in model.model.decoder.layers]
    own = [layer.self_attn for layer in (*model.model.encoder.layers, *model.model.decoder.layers)]
    assert not any(isinstance(attention.q_proj, MergedLinear) for attention in crossed)
    assert all(isinstance(attention.q_proj, MergedLinear) for attention in own)
    assert len(groups) == len(own)


def test_a_model_whose_logits_merging_changes_is_restored() -> None:
    model = tiny("llama")
    reference, before = Reference(model), logits(model)
    reference.logits = [expected + 1 for expected in reference.logits]
    assert merge_and_verify(model, reference, EXACT, "cpu") == []
    assert torch.allclose(logits(model), before, atol=1e-5)
