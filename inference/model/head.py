"""The vocabulary matmul for the tokens whose logits are wanted, and no others.

A hook before a model's output layer; where a model has none to be found, its logits are picked afterwards.
Knows nothing of what a seat computes besides.
"""

from typing import Protocol

import torch
from transformers import PreTrainedModel

from inference.model.current import Current


class Picking(Protocol):
    """wanted (W,): which tokens' logits are wanted, of all that the model computes one behind the other;
    None: all. picked: the output layer was given those alone."""

    wanted: torch.Tensor | None
    picked: bool


_computed = Current[Picking]()
picking = _computed.computing


def install(model: PreTrainedModel) -> None:
    """Have the model's output layer read what is computed now; outside of that it computes as before."""
    output = model.get_output_embeddings()
    if output is not None and not getattr(output, "picks", False):
        output.register_forward_pre_hook(pick)
        output.picks = True


def pick(module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...] | None:
    """Before the vocabulary matmul: keep the hidden states (…, d) of the tokens wanted, as (1, W, d)."""
    computed = _computed.get()
    if computed is None or computed.wanted is None:
        return None
    computed.picked = True
    hidden = args[0].flatten(0, -2)
    return hidden.index_select(0, computed.wanted.to(hidden.device))[None], *args[1:]


def chosen(logits: torch.Tensor, computed: Picking) -> torch.Tensor:
    """Of logits (R, q, V), or (1, W, V) if they were picked before, those wanted: (W, V)."""
    logits = logits.flatten(0, 1)
    if computed.picked or computed.wanted is None:
        return logits
    return logits.index_select(0, computed.wanted.to(logits.device))
