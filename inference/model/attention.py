"""What the runners' attention functions for transformers' registry have in common.

Knows the arguments that models pass to attention, and grouped heads; not where keys and values are stored.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

# Arguments that do not change the result: the mask or the step's metadata has their effect, or they are meant
# for other code.
IGNORED_KWARGS = frozenset(
    {
        "sliding_window",
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


def effective_kwargs(kwargs: Mapping[str, Any]) -> list[str]:
    """The names of the additional arguments that may change the result of attention."""
    return sorted(name for name, value in kwargs.items() if value is not None and name not in IGNORED_KWARGS)


def attend_grouped(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float | None,
) -> torch.Tensor:
    """Attention of query (R, H, q, D) over keys (R, G, n, D) and values (R, G, n, E), as (R, H, q, E).

    The H / G query heads of a KV head become as many queries of that head, instead of repeating keys and
    values. mask (R, 1, q, n), the same for all heads; None, for one query only: it attends to everything.
    """
    R, H, q, D = query.shape
    G = keys.shape[1]
    assert mask is not None or q == 1, "several queries need a mask"
    if mask is not None and q > 1:
        mask = mask.repeat(1, 1, H // G, 1)
    folded = query.reshape(R, G, H // G * q, D)
    output = scaled_dot_product_attention(folded, keys, values, attn_mask=mask, scale=scale)
    return output.reshape(R, H, q, -1)
