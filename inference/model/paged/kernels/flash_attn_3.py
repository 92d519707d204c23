"""FlashAttention 3, if its package is installed, on Hopper GPUs: 16-bit dtypes, no sinks."""

import torch
from flash_attn_interface import flash_attn_with_kvcache

from inference.model.batch import UnsupportedModel
from inference.model.paged.attention import AttentionParams
from inference.model.paged.attn_metadata import AttnMetadata
from inference.model.paged.kernels.page_table import page_table_of
from inference.model.paged.kv_pool import LayerKV


def attend(query: torch.Tensor, kv: LayerKV, metadata: AttnMetadata, params: AttentionParams) -> torch.Tensor:
    """An AttentionKernel. Raises UnsupportedModel for sinks, RuntimeError for other head sizes and dtypes."""
    scale, window, softcap, sinks = params
    if sinks is not None:
        raise UnsupportedModel("does not support sinks")
    page_table = page_table_of(metadata, query.device)
    output: torch.Tensor = flash_attn_with_kvcache(
        query,
        kv.keys,
        kv.values,
        cache_seqlens=page_table.seq_lens,
        page_table=page_table.pages,
        cu_seqlens_q=page_table.query_start_loc,
        max_seqlen_q=page_table.max_query_len,
        softmax_scale=scale,
        causal=True,
        window_size=(-1 if window is None else window - 1, 0),
        softcap=softcap or 0.0,
    )
    return output
