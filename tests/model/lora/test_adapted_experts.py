"""Pairs on stacks of experts that always compute one by one."""

from typing import Any

import torch
from transformers import AutoConfig
from transformers.models.jetmoe.modeling_jetmoe import JetMoeParallelExperts
from transformers.models.longcat_flash.modeling_longcat_flash import LongcatFlashExperts

from inference.model.lora.adapted_experts import AdaptedExperts, ExpertStack, has_stacked_experts

WIDTH, INNER, EXPERTS, RANK = 8, 6, 3, 2


def longcat_experts() -> Any:
    sizes = {"hidden_size": WIDTH, "expert_ffn_hidden_size": INNER, "n_routed_experts": EXPERTS}
    return LongcatFlashExperts(AutoConfig.for_model("longcat_flash", **sizes, zero_expert_num=1))


def adapt(module: Any) -> AdaptedExperts:
    """The module with random pairs; its own weights become those with the pairs' products."""
    stacks = {}
    for name, weight in module.named_parameters():
        base = torch.randn(weight.shape)
        a, b = torch.randn(len(weight), RANK, weight.shape[2]), torch.randn(*weight.shape[:2], RANK)
        stacks[name] = ExpertStack(base, a, b)
        weight.data = base + b @ a
    return AdaptedExperts(module, stacks)


@torch.no_grad()
def test_experts_without_a_setting_compute_with_their_pairs() -> None:
    torch.manual_seed(0)
    tokens, counts = torch.randn(5, WIDTH), [2, 0, 3]
    expert_ids, weights = torch.tensor([[0, 3], [1, 2], [2, 0], [3, 1], [0, 1]]), torch.rand(5, 2)
    for module, inputs in (
        (longcat_experts(), (tokens, expert_ids, weights)),
        (JetMoeParallelExperts(EXPERTS, WIDTH, INNER), (tokens, counts)),
    ):
        adapted = adapt(module)
        assert has_stacked_experts(module)
        torch.testing.assert_close(adapted.forward(*inputs), module(*inputs), rtol=1e-4, atol=1e-4)
