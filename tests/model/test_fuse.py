"""Projections computed by one matmul: the same answers, the same weights, each member still right alone."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from inference.model.fuse import Group, fuse, proved
from inference.model.trial import Trial
from tests.families import tiny

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
    """Of all that the weights keep in memory."""
    kept = {weight.untyped_storage().data_ptr(): weight.untyped_storage() for weight in model.parameters()}
    return sum(storage.nbytes() for storage in kept.values())


def test_a_joined_model_answers_as_before_from_the_same_bytes(model: PreTrainedModel) -> None:
    before, size, names = logits(model), bytes_of(model), list(model.state_dict())
    weights = [weight.clone() for weight in model.state_dict().values()]
    groups = proved(model, Trial(model), EXACT, "cpu")
    assert len(groups) == FUSED[model.config.model_type]
    assert (logits(model) - before).abs().max() < 1e-4
    assert bytes_of(model) == size
    assert list(model.state_dict()) == names
    assert all(map(torch.equal, weights, model.state_dict().values()))
    assert not any(group.wasted for group in groups)


def test_layers_that_left_compute_for_themselves() -> None:
    model = tiny("phi")
    before, groups = logits(model), fuse(model, "cpu")
    for group in groups:
        group.leave()
        group.weight = torch.full_like(group.weight, float("nan"))
    assert torch.allclose(logits(model), before, atol=1e-5)


def three(*biased: int) -> tuple[list[nn.Linear], list[nn.Linear]]:
    """Three layers, joined, and the same as they were."""
    torch.manual_seed(2)
    members = [nn.Linear(6, 4 + place, bias=place in biased) for place in range(3)]
    alone = [nn.Linear(6, 4 + place, bias=place in biased) for place in range(3)]
    for own, other in zip(members, alone, strict=True):
        other.load_state_dict(own.state_dict())
    Group(members).join()
    return members, alone


@torch.inference_mode()
@pytest.mark.parametrize("order", [(0,), (2,), (2, 1, 0), (0, 0, 1, 0, 2), (1, 1, 1)])
def test_a_member_is_right_alone_and_in_any_order(order: tuple[int, ...]) -> None:
    members, alone = three(0, 2)
    given, other = torch.randn(2, 3, 6)
    for place in order:
        for input in (given, given, other):
            assert torch.allclose(members[place](input), alone[place](input), atol=1e-6)


@torch.inference_mode()
def test_parts_are_for_the_same_tensor_not_for_another_in_its_place() -> None:
    members, alone = three()
    for _ in range(20):  # a tensor that is gone leaves its id, and its memory, to the next
        given = torch.randn(3, 6)
        members[0](given)
        del given
        given = torch.randn(3, 6)
        assert torch.allclose(members[1](given), alone[1](given), atol=1e-6)


@torch.inference_mode()
def test_parts_do_not_outlive_what_they_were_computed_from() -> None:
    members, _ = three()
    group = members[0].forward.func.__self__
    given = torch.randn(3, 6)
    members[0](given)
    assert len(group._parts) == 2
    del given
    assert not group._parts
    assert group.wasted == 2


def test_what_is_not_a_plain_layer_of_its_own_is_left_alone() -> None:
    hooked, tied, fused = tiny("llama"), tiny("llama"), tiny("gpt_neox")
    attention = hooked.model.layers[0].self_attn
    attention.q_proj.register_forward_pre_hook(lambda module, args: None)
    attention.k_proj.forward = attention.k_proj.forward
    first, second = (layer.mlp for layer in tied.model.layers)
    first.gate_proj.weight = second.gate_proj.weight
    assert len(fuse(hooked, "cpu")) == 3
    assert len(fuse(tied, "cpu")) == 2
    assert not fuse(fused, "cpu")


def test_a_group_whose_parts_nobody_takes_is_undone() -> None:
    model = tiny("bart")  # attention to the source: its query reads something else
    groups = proved(model, Trial(model), EXACT, "cpu")
    crossed = [layer.encoder_attn for layer in model.model.decoder.layers]
    own = [layer.self_attn for layer in (*model.model.encoder.layers, *model.model.decoder.layers)]
    assert not any("forward" in attention.q_proj.__dict__ for attention in crossed)
    assert all("forward" in attention.q_proj.__dict__ for attention in own)
    assert len(groups) == len(own)


def test_a_model_that_joined_layers_change_is_as_it_was() -> None:
    model = tiny("llama")
    trial, before = Trial(model), logits(model)
    trial.truths = [truth + 1 for truth in trial.truths]
    assert proved(model, trial, EXACT, "cpu") == []
    assert torch.allclose(logits(model), before, atol=1e-5)
