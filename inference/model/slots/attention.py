"""Attention over grouped keys and values that never repeats them: the group is folded into the query.

Stands in transformers' attention registry under "sdpa". Knows shapes; masks by head, biases, sinks are left
to transformers' own function.
"""

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from inference.model.slots.call import current

SDPA = ALL_ATTENTION_FUNCTIONS["sdpa"]
# What models pass along that does not change what attention computes: masks say it, or it is for others.
PLAIN = {
    "sliding_window",
    "use_cache",
    "position_ids",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
}


def install() -> None:
    """Put `attend` in the place of transformers' SDPA. Process-wide; changes nothing outside of a call."""
    ALL_ATTENTION_FUNCTIONS.register("sdpa", attend)


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of query (R, H, q, D) over keys and values (R, G, n, D), as (R, q, H, D).

    The H / G query heads of a group become further queries of its one head. Without a mask and with several
    queries, transformers' own function repeats nothing either.
    """
    R, H, q, D = query.shape
    group = H // key.shape[1]
    shared = q == 1 if attention_mask is None else attention_mask.shape[1] == 1
    if current() is None or group == 1 or not shared or strange(kwargs):
        return SDPA(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs)
    mask = attention_mask if q == 1 or attention_mask is None else attention_mask.repeat(1, 1, group, 1)
    query = query.reshape(R, -1, group * q, D)
    mixed = scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scaling)
    return mixed.reshape(R, H, q, -1).transpose(1, 2).contiguous(), None


def strange(kwargs: dict[str, Any]) -> bool:
    """Whether a model passes something that may change what attention computes."""
    return any(value is not None and name not in PLAIN for name, value in kwargs.items())
