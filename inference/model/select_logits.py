"""Restricts the vocabulary matmul to the tokens whose logits are needed.

A hook before a model's output layer; where no such layer is found, the logits are selected afterwards.
Knows nothing else of what a runner computes.
"""

from typing import Protocol

import torch
from transformers import PreTrainedModel

from inference.model.forward_context import ForwardContext


class LogitsSelection(Protocol):
    """Which logits a forward pass needs.

    logits_indices   (W,) indices of the tokens, over all tokens that the model computes, flattened; None: all
    logits_selected  set to True by the hook, if the output layer computed only these tokens
    """

    logits_indices: torch.Tensor | None
    logits_selected: bool


_context = ForwardContext[LogitsSelection]()
use_selection = _context.use


def install(model: PreTrainedModel) -> None:
    """Hook the model's output layer, once. Outside of use_selection it computes all logits as before."""
    output = model.get_output_embeddings()
    if output is not None and not getattr(output, "selects_logits", False):
        output.register_forward_pre_hook(select_hidden)
        output.selects_logits = True


def select_hidden(module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...] | None:
    """Forward pre-hook: reduces the hidden states (…, d) to those of the needed tokens, (1, W, d)."""
    selection = _context.get()
    if selection is None or selection.logits_indices is None:
        return None
    selection.logits_selected = True
    hidden = args[0].flatten(0, -2)
    return hidden.index_select(0, selection.logits_indices.to(hidden.device))[None], *args[1:]


def select_logits(logits: torch.Tensor, selection: LogitsSelection) -> torch.Tensor:
    """The needed logits (W, V), from (R, q, V), or from (1, W, V) if the hook selected them."""
    logits = logits.flatten(0, 1)
    if selection.logits_selected or selection.logits_indices is None:
        return logits
    return logits.index_select(0, selection.logits_indices.to(logits.device))
