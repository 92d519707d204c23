"""The kernel that is always there: torch's attention over a row's pages side by side.

For every device, and all that models ask of attention. Knows shapes; who reads what is told by reach.py.
"""

import torch
from torch.nn.functional import scaled_dot_product_attention

from inference.model.packed.line import Line
from inference.model.packed.pool import Pages
from inference.model.packed.reach import Alone, Together, reach


def plain(
    query: torch.Tensor,
    pages: Pages,
    line: Line,
    *,
    scale: float,
    window: int | None,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """A Kernel (see attention.py)."""
    odd = softcap is not None or sinks is not None
    mixed = query.new_empty((*query.shape[:2], pages.values.shape[-1]))
    alone, together = reach(line, window, query.device)
    for one in alone:
        asked = query[one.start : one.end].transpose(0, 1)[None]  # (1, H, q, D)
        keys, values = read(pages.keys, one), read(pages.values, one)  # (1, G, n, ·)
        done = (
            by_hand(asked, keys, values, one.mask, scale, softcap, sinks)
            if odd
            else several(asked, keys, values, one.mask, scale)
        )
        mixed[one.start : one.end] = done[0].transpose(0, 1)
    for some in together:
        asked = query.index_select(0, some.places)[:, :, None]  # (K, H, 1, D)
        keys, values = gathered(pages.keys, some), gathered(pages.values, some)  # (K, G, n, ·)
        done = (
            by_hand(asked, keys, values, some.mask, scale, softcap, sinks)
            if odd
            else single(asked, keys, values, some.mask, scale)
        )
        mixed.index_copy_(0, some.places, done[:, :, 0])
    return mixed


def read(data: torch.Tensor, one: Alone) -> torch.Tensor:
    """Of data (N, S, G, D) the tokens that a row reads, (1, G, n, D); a view where its pages are in a run."""
    chosen = data[one.pages] if isinstance(one.pages, slice) else data.index_select(0, one.pages)
    return chosen.flatten(0, 1)[one.low : one.high].transpose(0, 1)[None]


def gathered(data: torch.Tensor, some: Together) -> torch.Tensor:
    """Of data (N, S, G, D) the pages that rows read, (K, G, n, D)."""
    chosen = data.index_select(0, some.pages)
    return chosen.view(len(some.places), -1, *data.shape[2:]).transpose(1, 2)


def several(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None, scale: float
) -> torch.Tensor:
    """(1, H, q, E) of query (1, H, q, D)."""
    if query.shape[2] == 1:
        return single(query, keys, values, None, scale)
    grouped = keys.shape[1] < query.shape[1]
    return scaled_dot_product_attention(
        query, keys, values, attn_mask=mask, is_causal=mask is None, scale=scale, enable_gqa=grouped
    )


def single(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None, scale: float
) -> torch.Tensor:
    """(K, H, 1, E) of query (K, H, 1, D): the heads of a group are as many queries of its one head."""
    K, H, _, D = query.shape
    asked = query.reshape(K, keys.shape[1], -1, D)
    mixed = scaled_dot_product_attention(asked, keys, values, attn_mask=mask, scale=scale)
    return mixed.reshape(K, H, 1, -1)


def by_hand(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """(K, H, q, E) of query (K, H, q, D), with what torch's own has not; the softmax in float32."""
    K, H, q, _ = query.shape
    group = H // keys.shape[1]
    keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
    scores = (query @ keys.transpose(2, 3)).float() * scale  # (K, H, q, n)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    elif q > 1:
        scores = scores.masked_fill(scores.new_ones(q, q, dtype=torch.bool).triu(1), float("-inf"))
    if sinks is not None:
        scores = torch.cat([scores, sinks.float().view(1, H, 1, 1).expand(K, H, q, 1)], -1)
    weights = scores.softmax(-1)[..., : values.shape[2]].to(values.dtype)
    return weights @ values
