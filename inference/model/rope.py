"""Rotary frequencies that would change with the longest sequence of a step, settled once for all.

What a row computes must depend neither on its neighbours nor on how far they have come. Knows rotary modules.
"""

from typing import Any

import torch
from transformers import PreTrainedModel

SETTLED = "settled"  # no kind that transformers recomputes


def settle(model: PreTrainedModel, context: int) -> list[str]:
    """Fix the frequencies that a sequence of `context` tokens has; returns the kinds that were settled.

    Up to the length a model was first trained with, these are the ones it has anyway. Beyond, a short
    sequence computes with a long one's: a shorter context is then closer to how the model was trained.
    """
    settled = []
    for module in model.modules():
        kinds: Any = getattr(module, "rope_type", None)
        if isinstance(kinds, dict):  # by type of layer
            for layer in filter(lambda layer: moves(kinds[layer]), list(kinds)):
                advance(module, model, context, layer)
                settled.append(kinds[layer])
                kinds[layer] = SETTLED
        elif moves(kinds):
            advance(module, model, context)
            settled.append(kinds)
            module.rope_type = SETTLED
    return settled


def moves(kind: Any) -> bool:
    return isinstance(kind, str) and ("dynamic" in kind or kind == "longrope")


@torch.no_grad()
def advance(module: Any, model: PreTrainedModel, context: int, *layer: str) -> None:
    """Have the module compute the last position of the context, and with it the frequencies for it."""
    sample = torch.empty(1, device=model.device, dtype=model.dtype)
    module(sample, torch.tensor([[context - 1]], device=model.device), *layer)
