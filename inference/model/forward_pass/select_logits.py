"""Restricts the vocabulary matmul to the tokens whose logits are needed.

A hook before a model's output layer; where no such layer is found, the logits are selected afterwards.
Knows nothing else of what a runner computes.
"""

import torch
from transformers import PreTrainedModel

from inference.model.forward_pass.forward_context import ForwardContext, get_forward_context


def install(model: PreTrainedModel) -> None:
    """Hook the model's output layer, once. Outside of a ForwardContext it computes all logits as before."""
    output = model.get_output_embeddings()
    if output is not None and not getattr(output, "selects_logits", False):
        output.register_forward_pre_hook(select_hidden)
        output.selects_logits = True


def select_hidden(module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...] | None:
    """Forward pre-hook: reduces the hidden states (…, d) to those of the needed tokens, (1, W, d)."""
    context = get_forward_context()
    if context is None or context.logits_indices is None:
        return None
    context.logits_selected = True
    hidden = args[0].flatten(0, -2)
    return hidden.index_select(0, context.logits_indices.to(hidden.device))[None], *args[1:]


def select_logits(logits: torch.Tensor, context: ForwardContext) -> torch.Tensor:
    """The needed logits (W, V), from (R, q, V), or from (1, W, V) if the hook selected them."""
    logits = logits.flatten(0, 1)
    if context.logits_selected or context.logits_indices is None:
        return logits
    return logits.index_select(0, context.logits_indices.to(logits.device))
