"""FlashAttention 2, where its package is installed: in 16 bits, pages of multiples of 256, without sinks."""

import torch
from flash_attn import flash_attn_varlen_func

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
    mixed: torch.Tensor = flash_attn_varlen_func(
        query,
        pages.keys,
        pages.values,
        cu_seqlens_q=index.starts,
        cu_seqlens_k=index.sums,
        max_seqlen_q=index.widest,
        max_seqlen_k=index.longest,
        softmax_scale=scale,
        causal=True,
        window_size=(-1 if window is None else window - 1, 0),
        softcap=softcap or 0.0,
        block_table=index.tables,
    )
    return mixed
