"""FlashAttention 3, where its package is installed and the GPU is of Hopper's kind: in 16 bits, no sinks."""

import torch
from flash_attn_interface import flash_attn_with_kvcache

from inference.model.packed.kernels.index import index_of
from inference.model.packed.line import Line
from inference.model.packed.pool import Pages
from inference.model.unfit import Unfit


def paged(
    query: torch.Tensor,
    pages: Pages,
    line: Line,
    *,
    scale: float,
    window: int | None,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """A Kernel (see attention.py). Raises Unfit for sinks, RuntimeError for widths and dtypes it has not."""
    if sinks is not None:
        raise Unfit("has no sinks")
    index = index_of(line, query.device)
    mixed: torch.Tensor = flash_attn_with_kvcache(
        query,
        pages.keys,
        pages.values,
        cache_seqlens=index.lengths,
        page_table=index.tables,
        cu_seqlens_q=index.starts,
        max_seqlen_q=index.widest,
        softmax_scale=scale,
        causal=True,
        window_size=(-1 if window is None else window - 1, 0),
        softcap=softcap or 0.0,
    )
    return mixed
