"""The forward pass that runs on this thread: a model's layers, masks and output layer read it.

Each thread has its own, and one pass may run inside another. Knows which logits and sums a pass needs; the
runners' own kinds of ForwardContext say what else belongs to it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import torch

from inference.model.forward_pass.step_adapters import StepAdapters
from inference.model.placement.hooks import DeviceCopies


@dataclass(slots=True, eq=False)
class ForwardContext:
    """What a model reads while it computes.

    logits_indices   (W,) indices of the tokens whose logits are needed, over all tokens that the model
                     computes, flattened; None: all
    logits_selected  whether the output layer was given only these tokens
    copies           copies of tensors for layers on other devices
    pooled_spans     spans of these tokens whose hidden states are summed: see pooling.py
    hidden_sums      (d,) of each span
    adapters         the tokens that have an adapter: see lora/; None: no token has one
    """

    logits_indices: torch.Tensor | None
    logits_selected: bool = field(default=False, init=False)
    copies: DeviceCopies = field(default_factory=DeviceCopies, init=False)
    pooled_spans: Sequence[tuple[int, int]] = field(default=(), kw_only=True)
    hidden_sums: Sequence[torch.Tensor] = field(default=(), init=False)
    adapters: StepAdapters | None = field(default=None, kw_only=True)


_current: ContextVar[ForwardContext | None] = ContextVar("forward_context", default=None)
get_forward_context = _current.get  # the running pass, None outside of one: a call in C, in every layer


@contextmanager
def set_forward_context(context: ForwardContext) -> Iterator[None]:
    """Make `context` the running forward pass within the with block."""
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)
