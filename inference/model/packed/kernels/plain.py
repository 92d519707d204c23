"""The kernel that is always there: torch's attention, a row at a time, over its pages side by side.

On a CPU a call for each row costs no more than one for all, and computes no padding.
"""

from dataclasses import dataclass

import torch
from torch.nn.functional import scaled_dot_product_attention

from inference.model.packed.line import Line, Span
from inference.model.packed.pool import Pages


@dataclass(frozen=True, slots=True)
class Reach:
    """What a row reads in a step: tokens [low, high) of these pages; mask (q, high - low), None: all that
    come before, which is_causal says where there are several queries."""

    pages: torch.Tensor | slice
    low: int
    high: int
    mask: torch.Tensor | None


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
    """A Kernel (see attention.py): for every device, and all that models ask of one."""
    mixed = []
    for span, reach in zip(line.spans, reaches(line, window, query.device), strict=True):
        asked = query[span.start : span.end].transpose(0, 1)  # (H, q, D)
        keys, values = read(pages.keys, reach), read(pages.values, reach)  # (G, n, D), (G, n, E)
        if softcap is None and sinks is None:
            mixed.append(torch_own(asked, keys, values, reach.mask, scale))
        else:
            mixed.append(by_hand(asked, keys, values, reach.mask, scale, softcap, sinks))
    return torch.cat(mixed)


def reaches(line: Line, window: int | None, device: torch.device) -> list[Reach]:
    """What each row reads, the same in all layers that see the same window."""
    name = f"plain {window} {device}"
    if name not in line.derived:
        line.derived[name] = [reach_of(span, line.size, window, device) for span in line.spans]
    found: list[Reach] = line.derived[name]
    return found


def reach_of(span: Span, size: int, window: int | None, device: torch.device) -> Reach:
    queries = span.end - span.start
    low = 0 if window is None else max(0, span.length - queries + 1 - window)
    first, last = low // size, -(-span.length // size)
    held = span.pages[first:last]
    run = list(held) == list(range(held[0], held[0] + len(held)))
    pages = slice(held[0], held[0] + len(held)) if run else torch.tensor(held, device=device)
    low, high = low - first * size, span.length - first * size
    mask = None
    if queries > 1 and (window is not None or span.length > queries):
        at = torch.arange(high - queries, high, device=device)[:, None]
        column = torch.arange(low, high, device=device)
        mask = column <= at if window is None else (column <= at) & (column > at - window)
    return Reach(pages, low, high, mask)


def read(data: torch.Tensor, reach: Reach) -> torch.Tensor:
    """Of data (N, S, G, D) the tokens that a row reads, (G, n, D); a view where its pages are in a run."""
    chosen = data[reach.pages] if isinstance(reach.pages, slice) else data.index_select(0, reach.pages)
    return chosen.flatten(0, 1)[reach.low : reach.high].transpose(0, 1)


def torch_own(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None, scale: float
) -> torch.Tensor:
    """(q, H, E) of query (H, q, D). One query of a group's heads is as many queries of its one head."""
    H, q, D = query.shape
    if q == 1:
        grouped = query.reshape(1, len(keys), -1, D)
        mixed = scaled_dot_product_attention(grouped, keys[None], values[None], scale=scale)
        return mixed.reshape(1, H, -1)
    mixed = scaled_dot_product_attention(
        query[None],
        keys[None],
        values[None],
        attn_mask=mask,
        is_causal=mask is None,
        scale=scale,
        enable_gqa=len(keys) < H,
    )
    return mixed[0].transpose(0, 1)


def by_hand(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """(q, H, E) of query (H, q, D), with what torch's own has not; the softmax in float32."""
    H, q, _ = query.shape
    group = H // len(keys)
    keys, values = keys.repeat_interleave(group, 0), values.repeat_interleave(group, 0)
    scores = (query @ keys.transpose(1, 2)).float() * scale  # (H, q, n)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if q > 1:
        seen = torch.ones(q, q, dtype=torch.bool, device=query.device).tril() if mask is None else mask
        scores = scores.masked_fill(~seen, float("-inf"))
    if sinks is not None:
        scores = torch.cat([scores, sinks.float().view(H, 1, 1).expand(H, q, 1)], -1)
    weights = scores.softmax(-1)[..., : values.shape[1]].to(values.dtype)
    return (weights @ values).transpose(0, 1)
