"""The default attention kernel: torch's scaled_dot_product_attention over gathered pages.

Supports every device and every option of AttentionKernel. Knows shapes; sdpa_groups.py decides which rows are
computed together.
"""

import torch
from torch.nn.functional import scaled_dot_product_attention

from inference.model.attention import attend_grouped
from inference.model.paged.attention import AttentionParams
from inference.model.paged.attn_metadata import AttnMetadata
from inference.model.paged.kv_pool import LayerKV
from inference.model.paged.q8_0 import dequantize
from inference.model.paged.sdpa_groups import GroupedRows, SingleRow, group_rows


def sdpa_kernel(
    query: torch.Tensor, kv: LayerKV, metadata: AttnMetadata, params: AttentionParams
) -> torch.Tensor:
    """An AttentionKernel (see attention.py)."""
    scale, window, softcap, sinks = params
    needs_eager = softcap is not None or sinks is not None
    value_head_dim = kv.head_dims[1] if kv.head_dims else kv.values.shape[-1]
    output = query.new_empty((*query.shape[:2], value_head_dim))
    key = "row groups", window, query.device
    if key not in metadata.per_step_cache:  # the same in all layers with this window
        metadata.per_step_cache[key] = group_rows(metadata, window, query.device)
    single_rows, groups = metadata.per_step_cache[key]
    for row in single_rows:
        queries = query[row.start : row.end].transpose(0, 1)[None]  # (1, H, q, D)
        keys, values = gather_row(kv.keys, row), gather_row(kv.values, row)
        keys, values = widened(kv, keys, values, query.dtype)  # (1, G, n, ·)
        attended = (
            eager_attention(queries, keys, values, row.mask, scale, softcap, sinks)
            if needs_eager
            else attend_row(queries, keys, values, row.mask, scale)
        )
        output[row.start : row.end] = attended[0].transpose(0, 1)
    for group in groups:
        queries = query.index_select(0, group.token_indices)[:, :, None]  # (K, H, 1, D)
        keys, values = gather_group(kv.keys, group), gather_group(kv.values, group)
        keys, values = widened(kv, keys, values, query.dtype)  # (K, G, n, ·)
        attended = (
            eager_attention(queries, keys, values, group.mask, scale, softcap, sinks)
            if needs_eager
            else attend_grouped(queries, keys, values, group.mask, scale)
        )
        output.index_copy_(0, group.token_indices, attended[:, :, 0])
    return output


def gather_row(data: torch.Tensor, row: SingleRow) -> torch.Tensor:
    """Gather the tokens that a row reads from data (N, S, G, D): (1, G, n, D), a view if possible."""
    pages = data[row.pages] if isinstance(row.pages, slice) else data.index_select(0, row.pages)
    return pages.flatten(0, 1)[row.low : row.high].transpose(0, 1)[None]


def gather_group(data: torch.Tensor, group: GroupedRows) -> torch.Tensor:
    """Gather the pages that K rows read from data (N, S, G, D): (K, G, n, D)."""
    pages = data.index_select(0, group.pages)
    return pages.view(len(group.token_indices), -1, *data.shape[2:]).transpose(1, 2)


def widened(
    kv: LayerKV, keys: torch.Tensor, values: torch.Tensor, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gathered keys (…, D) and values (…, E) in `dtype`, dequantized if the pages have blocks."""
    if kv.head_dims is None:
        return keys, values
    key_head_dim, value_head_dim = kv.head_dims
    return dequantize(keys, key_head_dim, dtype), dequantize(values, value_head_dim, dtype)


def attend_row(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None, scale: float
) -> torch.Tensor:
    """Attention of one row: query (1, H, q, D), returns (1, H, q, E)."""
    if query.shape[2] == 1:
        return attend_grouped(query, keys, values, None, scale)
    grouped = keys.shape[1] < query.shape[1]
    return scaled_dot_product_attention(
        query, keys, values, attn_mask=mask, is_causal=mask is None, scale=scale, enable_gqa=grouped
    )


def eager_attention(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """Attention with softcap and sinks, which torch's lacks: query (K, H, q, D), returns (K, H, q, E).

    The softmax is in float32.
    """
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
