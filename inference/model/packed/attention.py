"""The attention of a line: each token sees what its own row's pages hold.

Stands in transformers' attention registry under a name of its own, which a model has while it computes a
line. Knows what models hand to attention; how pages are read is a kernel's affair.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from transformers import PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from inference.model.packed.line import Line, current
from inference.model.packed.pool import Pages, Pool
from inference.model.packed.windows import Window, window_of
from inference.model.unfit import Unfit

NAME = "hearth_packed"  # no mask is registered for it: transformers makes none
PROBING = "hearth_probing"  # the same with masks, that tell the pattern each layer is to see
# What models pass along that does not change what attention computes, or that a line replaces.
PLAIN = frozenset(
    {
        "dropout",
        "use_cache",
        "position_ids",
        "cache_position",
        "past_key_values",
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
    }
)


class Kernel(Protocol):
    """Reads the pages of a line.

    query (T, H, D) over pages whose keys are (N, S, G, D) and values (N, S, G, E), as (T, H, E). Of its row,
    a token sees itself and those before it, of which the last `window` if that is not None. softcap: scores
    s become c tanh(s / c); sinks (H,): a score each head adds to the softmax, that stands for no token.
    """

    def __call__(
        self,
        query: torch.Tensor,
        pages: Pages,
        line: Line,
        *,
        scale: float,
        window: int | None,
        softcap: float | None,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor: ...


class Attention:
    """One model's: its pool, and the kernel that reads it."""

    def __init__(self, model: PreTrainedModel, pool: Pool, kernel: Kernel) -> None:
        self.pool = pool
        self.kernel = kernel
        self.configs = list({id(c): c for m in model.modules() if (c := getattr(m, "config", None))}.values())

    @contextmanager
    def serving(self, name: str = NAME) -> Iterator[None]:
        """Be the attention of the model meanwhile."""
        global _serving
        before = [config._attn_implementation_internal for config in self.configs]
        _serving = self
        try:
            for config in self.configs:
                config._attn_implementation_internal = name
            yield
        finally:
            _serving = None
            for config, implementation in zip(self.configs, before, strict=True):
                config._attn_implementation_internal = implementation


_serving: Attention | None = None


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of query (1, H, T, D) over the rows of the line, as (1, T, H, E). Raises Unfit for what a
    line does not have."""
    line, attention = current(), _serving
    assert line is not None and attention is not None, "pages are only there while a line is computed"
    odd = sorted(name for name, value in kwargs.items() if value is not None and name not in PLAIN)
    if odd:
        raise Unfit(f"attention is given {odd[0]}")
    window = sliding_window or None
    if isinstance(attention_mask, torch.Tensor):
        raise Unfit("attention is given a mask of the model's own")
    if attention_mask is not None and attention_mask != Window(window):
        raise Unfit(f"attention sees {attention_mask}, and is told {Window(window)}")
    slots = line.copies.on(key.device, line.slots)
    pages = attention.pool.write(module, key[0].transpose(0, 1), value[0].transpose(0, 1), slots)
    mixed = attention.kernel(
        query[0].transpose(0, 1),
        pages,
        line,
        scale=query.shape[-1] ** -0.5 if scaling is None else scaling,
        window=window,
        softcap=softcap,
        sinks=s_aux,
    )
    return mixed[None], None


def probe(*args: Any, **kwargs: Any) -> Window:
    """In the place of a mask: the window of its pattern. Raises Unfit where the pattern is none."""
    return window_of(kwargs["mask_function"])


ALL_ATTENTION_FUNCTIONS.register(NAME, attend)
ALL_ATTENTION_FUNCTIONS.register(PROBING, attend)
ALL_MASK_ATTENTION_FUNCTIONS.register(PROBING, probe)
