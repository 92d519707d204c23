"""Random KV pages, rows whose pages are shuffled, and queries that attend to them."""

import random

import torch

from inference.model.paged.attention import AttentionParams
from inference.model.paged.attn_metadata import AttnMetadata, QuerySpan
from inference.model.paged.kv_pool import LayerKV


def make_metadata(rows: list[tuple[int, int]], size: int, seed: int = 0) -> AttnMetadata:
    """Rows of (tokens in this step, tokens in all), in shuffled pages."""
    counts = [-(-length // size) for _, length in rows]
    free = list(range(sum(counts) + 2))
    random.Random(seed).shuffle(free)
    spans, end = [], 0
    for (width, length), count in zip(rows, counts, strict=True):
        spans.append(QuerySpan(end, end + width, length, [free.pop() for _ in range(count)]))
        end += width
    nothing = torch.zeros(0)
    return AttnMetadata(nothing, nothing, nothing, None, spans, size)


def random_query_and_pages(
    metadata: AttnMetadata, G: int, group: int, D: int, E: int, dtype: torch.dtype
) -> tuple[torch.Tensor, LayerKV]:
    """A query (T, H, D), not contiguous, as models pass it, and the pages that it attends to."""
    torch.manual_seed(0)
    count = sum(len(span.pages) for span in metadata.spans) + 2
    query = torch.randn(G * group, metadata.spans[-1].end, D).to(dtype).transpose(0, 1) * 2
    keys, values = torch.randn(count, metadata.page_size, G, D), torch.randn(count, metadata.page_size, G, E)
    return query, LayerKV(keys.to(dtype), values.to(dtype))


def to_float32(
    query: torch.Tensor, pages: LayerKV, params: AttentionParams
) -> tuple[torch.Tensor, LayerKV, AttentionParams]:
    """The same in float32, as the reference."""
    sinks = None if params.sinks is None else params.sinks.float()
    pages = LayerKV(pages.keys.float(), pages.values.float())
    return query.float(), pages, params._replace(sinks=sinks)
